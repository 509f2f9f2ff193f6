// The parts of top-k selection: the pass that reads the input, which SIMD targets do, and the
// places of the sample.
#ifndef GRADWIRE_COMPRESS_KERNELS_TOPK_TOPK_KERNELS_H_
#define GRADWIRE_COMPRESS_KERNELS_TOPK_TOPK_KERNELS_H_

#include <cstdint>

#include "compress/kernels/kernel_job.h"

namespace gradwire {

// Elements that may be selected, by ascending index.
struct TopkCandidates {
  uint32_t* bits;  // of |p|, kInfBits where p is not finite
  uint32_t* index;
  int64_t capacity;
  int64_t count;
  uint32_t absmax_bits;  // of all elements scanned, at or above kInfBits where one is not finite
};

// Places that let a scan go on: for a run, and for what kernels write behind the last candidate.
inline constexpr int64_t kTopkRoom = 2 * kRunElems;

// Appends the elements from `first` on whose bits are at least `floor`. Writes p of all it has
// scanned to input.e_out and adds its squares to input.stats->sum_p2, unless these are null.
// Returns the first element it has not scanned: it stops before the end only where fewer than
// kTopkRoom places are left, and with so many it does not stop at once.
using TopkScan = int64_t (*)(const InputJob& input, int64_t first, uint32_t floor,
                             TopkCandidates* found);

// The reference.
int64_t TopkScanRef(const InputJob& input, int64_t first, uint32_t floor, TopkCandidates* found);

// The kernel of the active SIMD target.
TopkScan ActiveTopkScan();

// The sample's size, a power of two or zero, and the element its i-th value is read from: one of
// each equal part of the input, at scattered places, so that a layer's period does not meet the
// sample's.
int64_t TopkSamples(int64_t elems);
int64_t TopkSampleAt(int64_t i, int64_t elems);

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_KERNELS_TOPK_TOPK_KERNELS_H_
