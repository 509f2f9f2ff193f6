// Compiled with -mavx2 -mf16c where the architecture has it.
#ifdef __AVX2__
#include "collectives/reduce/fp16_f16c.h"
#else
#include "collectives/reduce/kernels.h"
#endif

namespace gradwire {

#ifdef __AVX2__
constinit const ReduceKernels kAvx2ReduceKernels = LoopsWithF16c();
#else
constinit const ReduceKernels kAvx2ReduceKernels = {};
#endif

}  // namespace gradwire
