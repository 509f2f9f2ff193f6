// The reduction kernels of each SIMD target, by dtype and operation.
#ifndef GRADWIRE_COLLECTIVES_REDUCE_KERNELS_H_
#define GRADWIRE_COLLECTIVES_REDUCE_KERNELS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace gradwire {

// out[i] = a[i] op b[i] for `elems` elements; pointers as in ReduceInto.
using ReduceKernel = void (*)(const std::byte* a, const std::byte* b, std::byte* out,
                              int64_t elems);

inline constexpr int kKernelOps = 4;  // sum, prod, max, min; avg is sum
using ReduceKernels = std::array<std::array<ReduceKernel, kKernelOps>, kDTypes>;

// All of the same loops. Null pointers where the architecture has no such target.
extern const ReduceKernels kBaselineReduceKernels;  // what every processor of the architecture runs
extern const ReduceKernels kAvx2ReduceKernels;
extern const ReduceKernels kAvx512ReduceKernels;

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_REDUCE_KERNELS_H_
