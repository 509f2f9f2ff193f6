// Direct: every rank talks to every other. Bandwidth-optimal with two messages in a row at any
// world size, but n - 1 messages per rank and phase: for few ranks.
//
//   reduce-scatter  rank r sends its shard j to rank j, which adds in rank order
//   all-gather      rank r sends its shard to all
//   all-reduce      both; 2 (n - 1) shards per rank, as the ring
//   all-to-all      rank r sends shard j to rank j; the arrays are apart (see BufferRole)
//
// Sends start with the next rank and go around, so that no rank is everybody's first target.
// Adding in rank order makes the sum of an element independent of its place, of the slice size and
// of in-place. Pure functions; any thread.
#ifndef GRADWIRE_COLLECTIVES_ALGORITHMS_DIRECT_DIRECT_H_
#define GRADWIRE_COLLECTIVES_ALGORITHMS_DIRECT_DIRECT_H_

#include "collectives/schedule.h"

namespace gradwire {

Schedule MakeDirectAllReduce(int rank, int world_size, int root);
Schedule MakeDirectReduceScatter(int rank, int world_size, int root);
Schedule MakeDirectAllGather(int rank, int world_size, int root);
Schedule MakeDirectAllToAll(int rank, int world_size, int root);

WireTotals DirectAllReduceTotals(int world_size);
WireTotals DirectHalfTotals(int world_size);  // the other three

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_ALGORITHMS_DIRECT_DIRECT_H_
