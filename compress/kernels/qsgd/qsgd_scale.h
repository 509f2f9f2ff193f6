// How a block's largest magnitude becomes its scale and the factor in front of the rounding. Both
// the reference and the SIMD kernels use it: it runs once per block.
#ifndef GRADWIRE_COMPRESS_KERNELS_QSGD_QSGD_SCALE_H_
#define GRADWIRE_COMPRESS_KERNELS_QSGD_QSGD_SCALE_H_

#include <bit>
#include <cstdint>

#include "compress/kernels/qsgd/qsgd_kernels.h"

namespace gradwire {

// The largest scale on the wire. level * fl(scale / levels) cannot round past the largest float
// below it.
inline constexpr uint32_t kQsgdMaxScaleBits = 0x7F7FFFFEu;  // (2 - 2^-22) * 2^127

struct QsgdScale {
  float scale;  // on the wire
  float unit;   // of a level: fl(scale / levels)
  float pre;  // x = fl(fl(p * pre) * inverse) is the level, times 2^16 when rounding is stochastic
  float inverse;
};

inline float QsgdUnit(const QsgdShape& shape, float scale) {
  return scale / static_cast<float>(shape.levels());
}

// absmax_bits: a normal, finite float.
//
// |x| never exceeds the top level by more than rounding takes back: |p| * inverse is at most
// top * (1 + 2^-24) before its own rounding, top is at most 127 * 2^16 < 2^23, so x is at most top
// + 0.5, a tie that goes to the even top.
inline QsgdScale MakeQsgdScale(const QsgdShape& shape, uint32_t absmax_bits) {
  const float top =
      static_cast<float>(shape.levels()) * (shape.rounding == Rounding::kNearest ? 1.0f : 65536.0f);
  QsgdScale s{.scale = std::bit_cast<float>(absmax_bits), .unit = 0, .pre = 1.0f, .inverse = 0};
  float scaled = s.scale;  // fl(scale * pre), in the range where top / scaled is an ordinary float
  if (absmax_bits < kPlainBegin) {
    s.pre = 0x1p64f;
    scaled = s.scale * 0x1p64f;
  } else if (absmax_bits >= kPlainEnd) {
    s.pre = 0x1p-64f;
    if (absmax_bits > kQsgdMaxScaleBits) {
      // Shrinks p by 2^-22 so that it fits under the largest scale.
      s.pre = 0x1p-64f * 0x1.fffff8p-1f;
      s.scale = std::bit_cast<float>(kQsgdMaxScaleBits);
    }
    scaled = s.scale * 0x1p-64f;
  }
  s.inverse = top / scaled;
  s.unit = QsgdUnit(shape, s.scale);
  return s;
}

// Zero, or a normal float up to the largest scale.
inline bool IsQsgdScale(uint32_t bits) {
  return bits == 0 || (bits >= kMinNormalBits && bits <= kQsgdMaxScaleBits);
}

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_KERNELS_QSGD_QSGD_SCALE_H_
