// Symbolic run: instead of elements, what every shard consists of.
#ifndef GRADWIRE_COLLECTIVES_VERIFY_SYMBOLIC_H_
#define GRADWIRE_COLLECTIVES_VERIFY_SYMBOLIC_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "collectives/verify/world.h"

namespace gradwire {

// What a shard holds: for one logical shard, how often each rank's contribution, and how often the
// most encoded of them was encoded.
struct SymbolicValue {
  int32_t shard = -1;           // of the contributors' input; -1: nothing was written
  std::vector<uint16_t> ranks;  // by rank
  int32_t encodes = 0;
  bool encoded = false;  // it is a payload now
  bool empty() const { return shard < 0; }
};

enum class Placement {
  kApart,    // input and output are different memory
  kInPlace,  // shards of one logical number are the same memory
};

// values[rank][buffer][shard] after the run, for the buffers of the schedules.
using SymbolicMemory = std::vector<std::vector<std::vector<SymbolicValue>>>;

// Runs all ranks. Error: a step reads what nothing wrote, adds payloads or shards of different
// numbers, writes the input, encodes what is encoded; or the schedules dead-lock.
StatusOr<SymbolicMemory> RunSymbolically(const World& world, Placement placement);

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_VERIFY_SYMBOLIC_H_
