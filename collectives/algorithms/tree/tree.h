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

WireTotals TreeAllReduceTotals(int world_size);
WireTotals TreeRootedTotals(int world_size);  // broadcast, reduce

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_ALGORITHMS_TREE_TREE_H_
