// Trees.
//
//   all-reduce  double binary tree (Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth
//               broadcast, reduction and scan", 2009): two binary heaps over the ranks, the second
//               mirrored, each for one half of the data. A rank has children in one of them at
//               most, so the load is even; slices pipeline through both. About 4 log2 n messages
//               deep, 4 (n - 1) halves of the data in all.
//   broadcast   binomial tree, ceil(log2 n) rounds after the one in which receivers announce
//   reduce      themselves; the data once over n - 1 edges.
//
// k-nomial trees, of radix 4, are half as deep as binomial ones, and their ranks send or receive up
// to 3 messages a level: for small arrays.
//   broadcast   ceil(log4 n) rounds after the announcements; the data once over n - 1 edges
//   reduce
//   all-reduce  a reduction to rank 0 and a broadcast, 2 ceil(log4 n) rounds; 2 (n - 1) messages,
//               the fewest there can be, with all the data in each
//
// All trees add children to their parent, the nearest first: in k-nomial trees, by rank from the
// root on. An all-reduce passes one sum on, so all ranks hold the same bits.
//
// In a broadcast and a reduction data flow does not tell a sender that its peer has started, so the
// receiver of every edge first sends a message of no shards (invariant I8).
// Pure functions; any thread.
#ifndef GRADWIRE_COLLECTIVES_ALGORITHMS_TREE_TREE_H_
#define GRADWIRE_COLLECTIVES_ALGORITHMS_TREE_TREE_H_

#include "collectives/schedule.h"

namespace gradwire {

Schedule MakeTreeAllReduce(int rank, int world_size, int root);
Schedule MakeTreeBroadcast(int rank, int world_size, int root);
Schedule MakeTreeReduce(int rank, int world_size, int root);
Schedule MakeKnomialAllReduce(int rank, int world_size, int root);
Schedule MakeKnomialBroadcast(int rank, int world_size, int root);
Schedule MakeKnomialReduce(int rank, int world_size, int root);

WireTotals TreeAllReduceTotals(int world_size);
WireTotals TreeRootedTotals(int world_size);  // broadcast, reduce; k-nomial ones too
WireTotals KnomialAllReduceTotals(int world_size);

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_ALGORITHMS_TREE_TREE_H_
