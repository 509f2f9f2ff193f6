// The level of one element: the specification for payloads and for packed lanes.
#ifndef GRADWIRE_COMPRESS_KERNELS_QSGD_QSGD_LEVEL_REF_H_
#define GRADWIRE_COMPRESS_KERNELS_QSGD_QSGD_LEVEL_REF_H_

#include <cmath>
#include <cstdint>

#include "compress/kernels/qsgd/qsgd_kernels.h"
#include "compress/kernels/qsgd/qsgd_scale.h"

namespace gradwire::ref {

// |p| is at most the magnitude that `s` was made of; `dither`: read where rounding is stochastic.
inline int32_t LevelOf(const QsgdShape& shape, const QsgdScale& s, float p, uint16_t dither) {
  const float x = p * s.pre * s.inverse;
  const auto rounded = static_cast<int32_t>(std::nearbyint(x));
  if (shape.rounding == Rounding::kNearest) return rounded;
  return (rounded + dither) >> 16;
}

}  // namespace gradwire::ref

#endif  // GRADWIRE_COMPRESS_KERNELS_QSGD_QSGD_LEVEL_REF_H_
