#include "compress/contribution.h"

#include <algorithm>

namespace gradwire {
namespace {

int64_t RoundBytes(const CarrierMethod& method, int round, const TensorMeta& meta, int world_size,
                   ConstBytes replicated) {
  const RoundSpec spec = method.Round(round, meta, world_size, {}, replicated);
  return spec.elems * SizeOf(spec.dtype);
}

}  // namespace

int64_t ContributionBytes(const Codec& codec, const TensorMeta& meta, int world_size,
                          ConstBytes replicated) {
  if (codec.carrier == nullptr) return codec.payload->MaxBytes(meta.elems);
  int64_t bytes = 0;
  for (int round = 0; round < codec.carrier->rounds(); ++round) {
    bytes += RoundBytes(*codec.carrier, round, meta, world_size, replicated);
  }
  return codec.carrier->Gathers() ? bytes * world_size / 2 : bytes;
}

int64_t LongestRoundBytes(const Codec& codec, const TensorMeta& meta, int world_size,
                          ConstBytes replicated) {
  int64_t longest = 0;
  for (int round = 0; round < codec.carrier->rounds(); ++round) {
    longest = std::max(longest, RoundBytes(*codec.carrier, round, meta, world_size, replicated));
  }
  return longest;
}

}  // namespace gradwire
