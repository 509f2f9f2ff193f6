// Halving-doubling: a reduce-scatter whose messages halve, and an all-gather whose messages double.
// Bandwidth-optimal as the ring, with a latency of 2 ceil(log2 n) messages: for many ranks.
//
//   reduce-scatter  a rank is in charge of all shards at first; in every round it gives the farther
//                   half of those it is in charge of to the rank that many places on, and adds what
//                   it receives to the nearer half; after ceil(log2 n) rounds its own is left
//   all-gather      the same way back: it sends the shards it has to where it got them from
//   all-reduce      both; 2 (n - 1) shards per rank at any world size
//
// The butterfly (Rabenseifner, "Optimization of collective reduction operations", 2004) needs a
// power of two; other sizes fold, at the price of two more rounds with the whole array. Here
// partners are r + s and r - s around a circle instead of r xor s, and odd numbers are halved
// upwards, which takes any n in the least number of rounds with the least bytes (Traeff, "Optimal,
// non-pipelined reduce-scatter and allreduce algorithms", 2025). For a power of two it is as good
// as the butterfly, but for messages that go past the last shard and are cut there: one more per
// rank and half, on average.
//
// Shard j is added in a tree over the ranks j, j - 1, ... (modulo n), fixed by the world size; only
// rank j has its sum, and all others get that, so all ranks hold the same bits. Pure functions; any
// thread.
#ifndef GRADWIRE_COLLECTIVES_ALGORITHMS_HALVING_DOUBLING_HALVING_DOUBLING_H_
#define GRADWIRE_COLLECTIVES_ALGORITHMS_HALVING_DOUBLING_HALVING_DOUBLING_H_

#include "collectives/schedule.h"

namespace gradwire {

Schedule MakeHalvingDoublingAllReduce(int rank, int world_size, int root);

WireTotals HalvingDoublingTotals(int world_size);

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_ALGORITHMS_HALVING_DOUBLING_HALVING_DOUBLING_H_
