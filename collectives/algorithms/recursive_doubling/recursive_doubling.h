// Recursive doubling: in round k every rank exchanges all it has with the rank whose number differs
// in bit k. Latency-optimal, log2 n messages, the whole data in each: for small arrays.
//
// A world size that is no power of two is folded: of the first 2 (n - p) ranks, p the power of two
// below n, the even ones give their data to their odd neighbour first and get the result last
// (Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH",
// 2005).
//
// Both ends of an exchange add the same two numbers, so all ranks hold the same bits (the kernels
// make NaNs equal). Pure functions; any thread.
#ifndef GRADWIRE_COLLECTIVES_ALGORITHMS_RECURSIVE_DOUBLING_RECURSIVE_DOUBLING_H_
#define GRADWIRE_COLLECTIVES_ALGORITHMS_RECURSIVE_DOUBLING_RECURSIVE_DOUBLING_H_

#include "collectives/schedule.h"

namespace gradwire {

Schedule MakeRecursiveDoublingAllReduce(int rank, int world_size, int root);

WireTotals RecursiveDoublingTotals(int world_size);

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_ALGORITHMS_RECURSIVE_DOUBLING_RECURSIVE_DOUBLING_H_
