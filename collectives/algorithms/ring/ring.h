// Ring: shards travel from rank to rank + 1. Bandwidth-optimal, latency grows with the world size
// (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
// 2009).
//
//   reduce-scatter  n - 1 rounds; in round s rank r sends shard r - 1 - s and adds what it
//                   receives to shard r - 2 - s, so shard r is complete at rank r; n - 1 shards
//                   sent
//   all-gather      n - 1 rounds; in round s rank r sends shard r - s, receives r - 1 - s
//   all-reduce      both, 2 (n - 1) rounds and shards
//
// Shard j is added in the order j + 1, j + 2, ..., j (modulo n): fixed by the world size, different
// for each shard. Pure functions; any thread.
#ifndef GRADWIRE_COLLECTIVES_ALGORITHMS_RING_RING_H_
#define GRADWIRE_COLLECTIVES_ALGORITHMS_RING_RING_H_

#include "collectives/schedule.h"

namespace gradwire {

Schedule MakeRingAllReduce(int rank, int world_size, int root);
Schedule MakeRingReduceScatter(int rank, int world_size, int root);
Schedule MakeRingAllGather(int rank, int world_size, int root);

WireTotals RingAllReduceTotals(int world_size);
WireTotals RingHalfTotals(int world_size);  // reduce-scatter, all-gather

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_ALGORITHMS_RING_RING_H_
