// The exact sum of a tensor in the rounds of another one's method, so that a small tensor needs no
// collective of its own beside compressed ones.
#ifndef GRADWIRE_COMPRESS_CODECS_NONE_EXACT_RIDER_H_
#define GRADWIRE_COMPRESS_CODECS_NONE_EXACT_RIDER_H_

#include <memory>
#include <vector>

#include "compress/carrier_method.h"

namespace gradwire {

// Whether a method of these rounds can take riders along: its last round sums float32.
bool TakesRiders(const std::vector<RoundSpec>& rounds);

// All of the tensor is in the last of `rounds`, which TakesRiders; it adds nothing to the others.
std::shared_ptr<const CarrierMethod> MakeExactRider(std::vector<RoundSpec> rounds);

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_NONE_EXACT_RIDER_H_
