// A carrier method that begins after some steps of a tensor: until then the sum is exact. Lossy
// methods lose most in the first steps of a training.
#ifndef GRADWIRE_COMPRESS_CODECS_DELAYED_START_H_
#define GRADWIRE_COMPRESS_CODECS_DELAYED_START_H_

#include <cstdint>
#include <memory>

#include "compress/carrier_method.h"

namespace gradwire {

// The largest number of steps that can be counted.
inline constexpr int64_t kMaxDelaySteps = 1'000'000'000;

// `method` from the step on that follows `steps` committed ones; with 0 it is `method`. Its last
// round must sum float32, its unit be the tensor, which is exact or NaN as a whole before, and it
// keeps nothing local.
//
// The count is replicated state, in front of the method's own: all ranks have the same, an aborted
// step does not count, and it is saved and loaded. A step that is not finite does not count either.
std::shared_ptr<const CarrierMethod> StartAfter(int64_t steps,
                                                std::shared_ptr<const CarrierMethod> method);

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_DELAYED_START_H_
