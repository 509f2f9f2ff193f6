// Small passes over arrays of floats. Host memory, any thread, aligned to the element; what a
// processor with SSE2 reads from its cache: 17-70 GB/s for float32 and bfloat16, 3-8 GB/s for
// float16. Rounding is that of base/float16.h.
#ifndef GRADWIRE_BASE_NUMERIC_H_
#define GRADWIRE_BASE_NUMERIC_H_

#include <cstdint>

#include "base/view.h"

namespace gradwire {

// Elements that are NaN or infinite; 0 for integer types. One pass.
uint64_t CountNonFinite(ConstView values);

// What a rank puts into a sum: p = fl(grad * scale) + e, in float32. `grad` is float32, float16 or
// bfloat16; `e` is float32 or empty (zeros). Load writes p to `acc`, Add adds it with one float32
// addition per element. `acc` (float32) has grad's length and may be the same memory as `e`, not as
// `grad`.
void LoadContribution(ConstView grad, float scale, ConstView e, View acc);
void AddContribution(ConstView grad, float scale, ConstView e, View acc);

// A moving average: next = fl(decay * last) + fl(gain * next), in float32. Equal lengths, no
// overlap.
void AddDecayed(ConstView last, float decay, float gain, View next);

// out = in * scale, computed in float32 (in float64 where both are float64). Types may differ among
// float32, float16 and bfloat16. Equal lengths; `out` may be `in` where the types are equal, other
// overlap is not allowed.
void ScaleInto(ConstView in, float scale, View out);

}  // namespace gradwire

#endif  // GRADWIRE_BASE_NUMERIC_H_
