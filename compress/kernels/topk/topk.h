// Exact top-k: the indices of the k elements of largest magnitude.
//
// Elements are ordered by |p| as float32, subnormal numbers included and -0 equal to 0; an infinity
// or a NaN counts as infinite. Of equal magnitudes the lower index is the larger element. So the
// selection is one set, whatever the target, the sample or the passes it took.
#ifndef GRADWIRE_COMPRESS_KERNELS_TOPK_TOPK_H_
#define GRADWIRE_COMPRESS_KERNELS_TOPK_TOPK_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "base/view.h"
#include "compress/payload_codec.h"

namespace gradwire {

// Indices and counts have 32 bits.
inline constexpr int64_t kTopkMaxElems = (int64_t{1} << 32) - 1;

// p = fl(grad * in_scale) + e_in, in host memory.
struct TopkInput {
  const std::byte* grad = nullptr;  // elems of dtype
  DType dtype = DType::kFloat32;    // float32, float16 or bfloat16
  float in_scale = 1.0f;
  const float* e_in = nullptr;  // elems, or null: nothing is added
  // elems, or null; overlaps nothing. Receives p, so that a residual needs no pass of its own. Bits
  // of a NaN are unspecified.
  float* p_out = nullptr;
  // Or null. absmax, nonfinite and, where all elements are finite, sum_p2 are added to.
  EncodeStats* stats = nullptr;
  int64_t elems = 0;  // at most kTopkMaxElems
};

// What SelectTopk needs as workspace: 16 bytes per selected element and at most 132 KiB more.
// 0 <= k <= elems.
int64_t TopkWorkspaceBytes(int64_t elems, int64_t k);

// Writes the k = `out.size()` <= elems selected indices, ascending. `workspace` has at least
// TopkWorkspaceBytes, aligned to 4 bytes, contents undefined before and after. Returns false where
// some p is not finite. One pass over the input, rarely two; time is O(elems) for any input. Any
// thread.
bool SelectTopk(const TopkInput& input, Bytes workspace, std::span<uint32_t> out);

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_KERNELS_TOPK_TOPK_H_
