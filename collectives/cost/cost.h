// Cost: what a set of schedules takes in the alpha-beta-gamma model, as a pure function of numbers
// that are measured elsewhere.
#ifndef GRADWIRE_COLLECTIVES_COST_COST_H_
#define GRADWIRE_COLLECTIVES_COST_COST_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "collectives/schedule.h"
#include "collectives/shard_bytes.h"

namespace gradwire {

// Times per byte are nanoseconds per byte of raw elements, but for beta, which is per byte on the
// wire.
struct CostParameters {
  double alpha_ns = 0;           // of a message, from its sender to its receiver
  double beta_ns_per_byte = 0;   // the wire, each direction
  double gamma_ns_per_byte = 0;  // reduce
  double copy_ns_per_byte = 0;
  double encode_ns_per_byte = 0;
  double decode_ns_per_byte = 0;
};

struct Cost {
  double total_ns = 0;              // until the last rank is done
  std::vector<double> rank_ns;      // until each is
  std::vector<int64_t> rank_bytes;  // what each sends
};

// The longest way through all steps, where a rank has one wire out, one wire in and one processor,
// and each takes what is there in the order in which it came (ties: the lower rank, then step,
// first). A message takes alpha and then its bytes, at both ends at once; a receive that adds is as
// a receive and then a reduce. No rank waits for another to start. Error: as World::Make, or a
// circle. Cost of the call: about the number of steps of all ranks, times its logarithm.
StatusOr<Cost> EstimateCost(std::span<const Schedule> schedules, const ShardBytes& bytes,
                            const CostParameters& parameters);

// The most encodes that any contribution passes on its way to an output: each adds an error of its
// own. 0 for exact algorithms, 2 for two_shot, from 2 ranks on. Walks the schedules of all n ranks:
// about 10 n^3 bytes and as much work.
StatusOr<int> EncodesPerElem(std::span<const Schedule> schedules);

// Ranks among which a contribution can meet every role: its worker, the owner of its shard, and a
// third who only gets the sum. With more ranks there is more of each, and no other.
inline constexpr int kRanksOfAllRoles = 3;

// The same of a registered algorithm, whose schedules at few ranks stand for those at `world_size`:
// cheap at any world size.
StatusOr<int> EncodesPerElem(const AlgorithmRow& row, int world_size);

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_COST_COST_H_
