// Exact top-k: the indices of the k elements of largest magnitude.
//
// Elements are ordered by |p| as float32, subnormal numbers included and -0 equal to 0; an infinity
// or a NaN counts as infinite. Of equal magnitudes the lower index is the larger element. So the
// selection is one set, whatever the target, the sample or the passes it took.
#ifndef GRADWIRE_COMPRESS_KERNELS_TOPK_TOPK_H_
#define GRADWIRE_COMPRESS_KERNELS_TOPK_TOPK_H_

#include <cstdint>
#include <span>

#include "base/view.h"
#include "compress/kernels/kernel_job.h"

namespace gradwire {

// Indices and counts have 32 bits.
inline constexpr int64_t kTopkMaxElems = (int64_t{1} << 32) - 1;

// What SelectTopk needs as workspace: 16 bytes per selected element and at most 132 KiB more.
// 0 <= k <= elems.
int64_t TopkWorkspaceBytes(int64_t elems, int64_t k);

// What is known of inputs that are selected from one after the other, such as blocks of a tensor.
// Only speed depends on it.
struct TopkHint {
  uint32_t floor = 0;  // bits of a magnitude that a few more than k elements may reach; 0: none
  uint32_t slack = uint32_t{1} << 20;  // by which it was below the smallest selected; 1/8 of it
};

// Writes the k = `out.size()` <= elems <= kTopkMaxElems selected indices, ascending. `workspace`
// has at least TopkWorkspaceBytes, aligned to 4 bytes, contents undefined before and after. Returns
// false where some p is not finite. One pass over the input, rarely two or three; time is O(elems)
// for any input. A hint, if there is one, takes the place of a sample, and is for the next input
// afterwards. Any thread.
//
// input.e_out overlaps nothing, or is null. It receives p, so that a residual needs no pass of its
// own; bits of a NaN are unspecified. To input.stats, unless that is null, absmax, nonfinite and,
// where all elements are finite, sum_p2 are added.
bool SelectTopk(const InputJob& input, Bytes workspace, std::span<uint32_t> out,
                TopkHint* hint = nullptr);

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_KERNELS_TOPK_TOPK_H_
