// What the algorithms share: numbering of ranks around a circle, rows of shards, and world size 1.
#ifndef GRADWIRE_COLLECTIVES_ALGORITHMS_COMMON_COMMON_H_
#define GRADWIRE_COLLECTIVES_ALGORITHMS_COMMON_COMMON_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "collectives/schedule.h"

namespace gradwire {

// x modulo n, in [0, n), for x >= -n.
constexpr int Wrap(int x, int n) { return (x + n) % n; }

// One shard of a buffer.
constexpr Region Shard(uint8_t buffer, int32_t shard) { return {buffer, shard, 1}; }

// A message of no shards: the bare header.
inline constexpr Region kNothing = {};

// 0, 1, ..., n - 1: the buffer holds every logical shard once.
std::vector<int32_t> EveryShard(int n);

// World size 1 of every algorithm: the input copied to the output, one shard, no message; no step
// at all for a barrier.
Schedule MakeLocalCopy(Collective collective, std::string_view algorithm);

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_ALGORITHMS_COMMON_COMMON_H_
