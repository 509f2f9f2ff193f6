// How many bytes a shard takes, for tools that look at schedules without running them.
#ifndef GRADWIRE_COLLECTIVES_SHARD_BYTES_H_
#define GRADWIRE_COLLECTIVES_SHARD_BYTES_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "collectives/schedule.h"

namespace gradwire {

// Bytes of logical shard `shard` in a buffer of this role: encoded in a payload, raw elsewhere.
using ShardBytes = std::function<int64_t(BufferRole role, int32_t shard)>;

inline int64_t RegionBytes(const Schedule& schedule, const Region& region,
                           const ShardBytes& bytes) {
  int64_t sum = 0;
  for (int32_t i = 0; i < region.count; ++i) {
    const BufferDecl& decl = schedule.buffers[region.buffer];
    sum += bytes(decl.role, decl.shard_ids[region.first + i]);
  }
  return sum;
}

// Elements of one size, and what a codec makes of some elements (not needed for exact collectives).
inline ShardBytes ShardBytesOf(Partition partition, int64_t elem_bytes,
                               std::function<int64_t(int64_t elems)> payload_bytes = nullptr) {
  return [=, partition = std::move(partition)](BufferRole role, int32_t shard) {
    const int64_t elems = partition.elems(shard);
    return role == BufferRole::kPayload && payload_bytes ? payload_bytes(elems)
                                                         : elems * elem_bytes;
  };
}

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_SHARD_BYTES_H_
