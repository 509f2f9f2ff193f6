// Reduction of raw elements: what kReduce and kRecvReduce do. Dispatched once per call over
// (dtype, operation), and over the SIMD target; every target gives the same bytes.
//
// Numerics, the same for any alignment, length, order of operands and target:
//   sum, avg, prod  integers wrap modulo 2^bits; float32, float64 IEEE, to nearest even, subnormals
//                   kept; float16, bfloat16 computed in float32 and rounded to nearest even once
//                   per call. A result that is NaN is the canonical quiet NaN (positive, no
//                   payload), so a op b and b op a have the same bits. avg is sum here, see
//                   ScaleAvg.
//   max, min        exact. NaN wins over every number and leaves as the canonical NaN; +0 is
//                   greater than -0. So the result does not depend on the order of the operands.
#ifndef GRADWIRE_COLLECTIVES_REDUCE_REDUCE_H_
#define GRADWIRE_COLLECTIVES_REDUCE_REDUCE_H_

#include <cstdint>

#include "base/dtype.h"
#include "base/view.h"

namespace gradwire {

// out = a op b, element by element. The three have the same size, a multiple of SizeOf(dtype), and
// any alignment; `out` may be exactly `a` or exactly `b`, other overlap is not allowed. Host
// memory. Any thread; about the speed of memory from avx2 on.
void ReduceInto(DType dtype, ReduceOp op, ConstBytes a, ConstBytes b, Bytes out);

// The last step of avg, once, in place: floats are multiplied by 1 / world_size, rounded to their
// own precision first (float32 for the 16-bit floats); integers are divided, truncating toward
// zero.
void ScaleAvg(DType dtype, View values, int world_size);

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_REDUCE_REDUCE_H_
