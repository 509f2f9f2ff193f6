// QSGD with the maximum norm per block (Alistarh et al., NeurIPS 2017): the arithmetic of codec
// `qsgd`. docs/wire_format.md describes the bytes.
#ifndef GRADWIRE_COMPRESS_KERNELS_QSGD_QSGD_KERNELS_H_
#define GRADWIRE_COMPRESS_KERNELS_QSGD_QSGD_KERNELS_H_

#include <cstdint>

#include "compress/kernels/kernel_job.h"

namespace gradwire {

enum class Rounding : uint8_t { kStochastic, kNearest };

inline constexpr int kQsgdMinBits = 2;
inline constexpr int kQsgdMaxBits = 8;
inline constexpr int64_t kQsgdMaxBlock = 4096;

struct QsgdShape {
  int bits;       // of a level
  int64_t block;  // elements under one scale: a multiple of kRunElems up to kQsgdMaxBlock
  Rounding rounding;

  // Levels are -levels() .. levels().
  int32_t levels() const { return (1 << (bits - 1)) - 1; }
};

// A level of `bits` bits is cut into fields of 8, 4, 2 and 1 bits after the binary digits of
// `bits`, the low bits of the level in the widest field. A run stores the fields of one width
// together.
struct LevelField {
  int width;
  int shift;  // position in the level
};

// The fields of a level, widest first; returns how many.
inline int LevelFields(int bits, LevelField fields[3]) {
  int count = 0;
  int shift = 0;
  for (int width = 8; width >= 1; width /= 2) {
    if ((bits & width) == 0) continue;
    fields[count++] = {width, shift};
    shift += width;
  }
  return count;
}

// Fields of `width` bits of `elems` (at most kRunElems) levels, in whole 32-bit words. Groups of 16
// words hold 16 * 32 / width elements; a short group has as many words as its elements need. Single
// bits are one string.
inline int64_t FieldWords(int width, int64_t elems) {
  const int64_t per_word = 32 / width;
  if (width == 1) return (elems + per_word - 1) / per_word;
  const int64_t group = 16 * per_word;
  return elems / group * 16 + (elems % group + per_word - 1) / per_word;
}

// Bytes of the levels of one run of at most kRunElems elements; 32 * bits for a whole one.
inline int64_t QsgdRunBytes(int bits, int64_t elems) {
  LevelField fields[3];
  const int count = LevelFields(bits, fields);
  int64_t words = 0;
  for (int f = 0; f < count; ++f) words += FieldWords(fields[f].width, elems);
  return 4 * words;
}

// Bytes of a whole block: scale and levels.
inline int64_t QsgdBlockBytes(const QsgdShape& shape) {
  return 4 + shape.block / kRunElems * 32 * shape.bits;
}

// Bytes of `elems` elements; exact.
inline int64_t QsgdBytes(const QsgdShape& shape, int64_t elems) {
  const int64_t rest = elems % shape.block;
  const int64_t whole = elems / shape.block * QsgdBlockBytes(shape);
  if (rest == 0) return whole;
  return whole + 4 + rest / kRunElems * 32 * shape.bits +
         QsgdRunBytes(shape.bits, rest % kRunElems);
}

struct QsgdKernels {
  // job.out has QsgdBytes(elems) bytes; first_elem is a multiple of the block.
  void (*encode)(const QsgdShape&, const EncodeJob&);
  // False: the payload is not what an encoder makes; the output is then undefined, but nothing
  // outside it was touched.
  bool (*decode)(const QsgdShape&, const DecodeJob&);
};

// The reference: any number of elements, tail included.
void QsgdEncodeRef(const QsgdShape& shape, const EncodeJob& job);
bool QsgdDecodeRef(const QsgdShape& shape, const DecodeJob& job);

// The kernels of the active SIMD target.
const QsgdKernels& ActiveQsgdKernels();

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_KERNELS_QSGD_QSGD_KERNELS_H_
