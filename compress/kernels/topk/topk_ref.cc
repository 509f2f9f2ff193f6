// The specification of the scan: a plain loop, element by element.
#include <algorithm>

#include "compress/kernels/scalar_ref.h"
#include "compress/kernels/topk/topk_kernels.h"

namespace gradwire {

int64_t TopkScanRef(const InputJob& input, int64_t first, uint32_t floor, TopkCandidates* found) {
  int64_t i = first;
  for (; i < input.elems && found->count < found->capacity; ++i) {
    const float p = ref::Input(input, i);
    if (input.e_out != nullptr) input.e_out[i] = p;
    if (input.stats != nullptr) input.stats->sum_p2 += static_cast<double>(p) * p;
    const uint32_t magnitude = ref::MagnitudeBits(p);
    found->absmax_bits = std::max(found->absmax_bits, magnitude);
    const uint32_t bits = std::min(magnitude, kInfBits);
    if (bits < floor) continue;
    found->bits[found->count] = bits;
    found->index[found->count] = static_cast<uint32_t>(i);
    ++found->count;
  }
  return i;
}

}  // namespace gradwire
