// Verification: that the schedules of an algorithm are right, at one world size, whatever the
// timing. The invariants and why they are needed: docs/architecture.md.
#ifndef GRADWIRE_COLLECTIVES_VERIFY_VERIFY_H_
#define GRADWIRE_COLLECTIVES_VERIFY_VERIFY_H_

#include <span>

#include "base/status.h"
#include "collectives/schedule.h"

namespace gradwire {

// Builds all ranks' schedules and checks them. The error names the invariant, the rank and the
// step. Cost: about the number of steps of all ranks times the world size.
Status VerifyAll(const AlgorithmRow& row, int world_size, int root = 0);

// The same for given schedules, in rank order.
//   I1  steps that touch a shard, one of them writing, are ordered by deps, in place too
//   I2  messages have two ends, a number of their own, the same shards
//   I3  ends have the same round; deps never point to a later round; messages between two ranks
//       in a round are listed in one order at both ends; and, so that a stream can run a round as
//       local steps, then one group of messages: inside a round nothing but the addition of what
//       was received depends on a message
//   I4  no circle, even where a send only completes when its receive has started
//   I5  the outputs hold what the collective promises, each rank's contribution once, each payload
//       decoded, in place or not; nobody leaves a barrier before everybody has come
//   I6  messages and shards sent are `totals`
//   I8  who sends to a rank completes only after that rank has started
// (I7, no bytes, types and clocks in a schedule, is a matter of its type.)
Status VerifySchedules(std::span<const Schedule> schedules, const WireTotals& totals);

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_VERIFY_VERIFY_H_
