// Each element in a float type of its own: the arithmetic of codecs `none` (float32), `bf16` and
// `fp16`.
#ifndef GRADWIRE_COMPRESS_KERNELS_CAST_CAST_KERNELS_H_
#define GRADWIRE_COMPRESS_KERNELS_CAST_CAST_KERNELS_H_

#include <cstdint>

#include "compress/kernels/kernel_job.h"

namespace gradwire {

// An element is a block of its own. One that is not finite, or becomes infinite in the wire type,
// travels as infinity or as the canonical NaN, counts in stats.nonfinite and leaves its residual as
// it was.
struct CastKernels {
  // job.out has elems elements of the wire type `wire`: float32, float16 or bfloat16.
  void (*encode)(DType wire, const EncodeJob&);
  // All bytes are valid.
  void (*decode)(DType wire, const DecodeJob&);
};

// The reference.
void CastEncodeRef(DType wire, const EncodeJob& job);
void CastDecodeRef(DType wire, const DecodeJob& job);

// The kernels of the active SIMD target.
const CastKernels& ActiveCastKernels();

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_KERNELS_CAST_CAST_KERNELS_H_
