#include "compress/contribution.h"

namespace gradwire {

int64_t ContributionBytes(const Codec& codec, const TensorMeta& meta, int world_size,
                          ConstBytes replicated) {
  if (codec.carrier == nullptr) return codec.payload->MaxBytes(meta.elems);
  int64_t bytes = 0;
  for (int round = 0; round < codec.carrier->rounds(); ++round) {
    const RoundSpec spec = codec.carrier->Round(round, meta, world_size, {}, replicated);
    bytes += spec.elems * SizeOf(spec.dtype);
  }
  return codec.carrier->Gathers() ? bytes * world_size / 2 : bytes;
}

}  // namespace gradwire
