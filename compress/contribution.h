// How much of a tensor a rank brings to the network.
#ifndef GRADWIRE_COMPRESS_CONTRIBUTION_H_
#define GRADWIRE_COMPRESS_CONTRIBUTION_H_

#include <cstdint>

#include "base/view.h"
#include "compress/carrier_method.h"
#include "compress/registry.h"

namespace gradwire {

// Bytes of its payload, or of its carriers in all rounds. An all-reduce moves 2(n-1)/n times that
// over each rank's link, an all-gather n-1 times: what is gathered counts n/2 times.
//
// With the state that the carrier keeps, zeros being that of the first step; without it what is to
// be expected once that has settled.
int64_t ContributionBytes(const Codec& codec, const TensorMeta& meta, int world_size,
                          ConstBytes replicated = {});

// Of the longest of its carriers, as all ranks expect it. The codec has a carrier; `replicated` as
// above.
int64_t LongestRoundBytes(const Codec& codec, const TensorMeta& meta, int world_size,
                          ConstBytes replicated = {});

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CONTRIBUTION_H_
