// One field at a time: the specification of packed lanes.
#ifndef GRADWIRE_COMPRESS_KERNELS_LANES_LANE_REF_H_
#define GRADWIRE_COMPRESS_KERNELS_LANES_LANE_REF_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "compress/kernels/lanes/lane_shape.h"
#include "compress/kernels/scalar_ref.h"

namespace gradwire::ref {

// p[0..elems) = the input; returns the bits of its largest magnitude.
inline uint32_t LoadBlock(const InputJob& job, float* p) {
  uint32_t absmax_bits = 0;
  for (int64_t i = 0; i < job.elems; ++i) {
    p[i] = Input(job, i);
    absmax_bits = std::max(absmax_bits, MagnitudeBits(p[i]));
  }
  return absmax_bits;
}

struct LanePlace {
  int64_t word;
  int shift;
};

// Of element k of an array that starts with a group.
inline LanePlace PlaceOf(const LaneShape& shape, int64_t k) {
  const int64_t in_group = k % shape.group_elems();
  return {k / shape.group_elems() * kGroupWords + in_group % kGroupWords,
          static_cast<int>(in_group / kGroupWords) * shape.width};
}

// `words` begin as zeros.
inline void StoreField(const LaneShape& shape, uint32_t field, int64_t k, std::byte* words) {
  const LanePlace at = PlaceOf(shape, k);
  std::byte* word = words + 4 * at.word;
  StoreAs(LoadAs<uint32_t>(word) | field << at.shift, word);
}

inline uint32_t LoadField(const LaneShape& shape, const std::byte* words, int64_t k) {
  const LanePlace at = PlaceOf(shape, k);
  return LoadAs<uint32_t>(words + 4 * at.word) >> at.shift & shape.mask();
}

// Whether bits are set that belong to no field of the `elems` elements of a block.
inline bool HasStrayBits(const LaneShape& shape, const std::byte* words, int64_t elems) {
  uint32_t of_fields[kMaxLaneBlock] = {};
  for (int64_t k = 0; k < elems; ++k) {
    const LanePlace at = PlaceOf(shape, k);
    of_fields[at.word] |= shape.mask() << at.shift;
  }
  const int64_t count = shape.words(elems) - shape.blocks(elems) * shape.head_words;
  for (int64_t w = 0; w < count; ++w) {
    if ((LoadAs<uint32_t>(words + 4 * w) & ~of_fields[w]) != 0) return true;
  }
  return false;
}

}  // namespace gradwire::ref

#endif  // GRADWIRE_COMPRESS_KERNELS_LANES_LANE_REF_H_
