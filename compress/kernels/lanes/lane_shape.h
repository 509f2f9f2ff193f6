// Packed lanes: small unsigned fields side by side in 32-bit words, wide enough that adding the
// words of all ranks carries from no field into the next. So any sum of unsigned integers adds
// them: ring, tree, MPI, NCCL.
#ifndef GRADWIRE_COMPRESS_KERNELS_LANES_LANE_SHAPE_H_
#define GRADWIRE_COMPRESS_KERNELS_LANES_LANE_SHAPE_H_

#include <algorithm>
#include <bit>
#include <cstdint>

#include "compress/kernels/kernel_job.h"

namespace gradwire {

// Word i of a group holds elements i, i + 16, i + 32, ...: 16 neighbours are 16 SIMD lanes.
inline constexpr int64_t kGroupWords = 16;

struct LaneShape {
  int width = 0;      // bits of a field
  int per_word = 0;   // fields; bits above them are zero
  int64_t block = 0;  // elements under one scale: the whole groups that come nearest to kRunElems
  int64_t head_words = 0;  // of a block, before its groups

  int64_t group_elems() const { return kGroupWords * per_word; }
  uint32_t mask() const { return ~uint32_t{0} >> (32 - width); }
  // Of a word whose fields all belong to elements, the bits that no field has.
  uint32_t stray_bits() const {
    const int used = width * per_word;
    return used == 32 ? 0 : ~uint32_t{0} << used;
  }
  int64_t blocks(int64_t elems) const { return (elems + block - 1) / block; }
  int64_t head_bytes() const { return 4 * head_words; }
  // A last group that is not whole has a word for each of its first 16 elements.
  int64_t words(int64_t elems) const {
    return blocks(elems) * head_words + elems / group_elems() * kGroupWords +
           std::min(elems % group_elems(), kGroupWords);
  }
};

// Fields that hold sums from 0 to `largest` > 0.
inline LaneShape MakeLaneShape(uint32_t largest, int64_t head_words = 0) {
  LaneShape shape{.head_words = head_words};
  shape.width = std::bit_width(largest);
  shape.per_word = 32 / shape.width;
  const int64_t group = shape.group_elems();
  shape.block = group * std::max<int64_t>((kRunElems + group / 2) / group, 1);
  return shape;
}

// Where one bit is a field.
inline constexpr int64_t kMaxLaneBlock = 32 * kGroupWords;

// The b-th block of a job. `Job`: EncodeJob or DecodeJob.
template <class Job>
Job BlockOf(const LaneShape& lanes, const Job& job, int64_t b) {
  const int64_t first = b * lanes.block;
  return job.Sub(first, std::min(lanes.block, job.elems - first), 4 * lanes.words(first));
}

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_KERNELS_LANES_LANE_SHAPE_H_
