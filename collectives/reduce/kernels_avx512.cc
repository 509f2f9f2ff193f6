// Compiled with -mavx512f and its extensions where the architecture has it.
#ifdef __AVX512F__
#include "collectives/reduce/fp16_f16c.h"
#else
#include "collectives/reduce/kernels.h"
#endif

namespace gradwire {

#ifdef __AVX512F__
constinit const ReduceKernels kAvx512ReduceKernels = LoopsWithF16c();
#else
constinit const ReduceKernels kAvx512ReduceKernels = {};
#endif

}  // namespace gradwire
