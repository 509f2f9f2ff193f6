// Dissemination barrier: in round k rank r tells rank r + 2^k that it, and all it has heard of, are
// there; after ceil(log2 n) rounds everybody has heard of everybody (Hensgen, Finkel, Manber, "Two
// algorithms for barrier synchronization", 1988). Bare headers only. Pure functions; any thread.
#ifndef GRADWIRE_COLLECTIVES_ALGORITHMS_DISSEMINATION_DISSEMINATION_H_
#define GRADWIRE_COLLECTIVES_ALGORITHMS_DISSEMINATION_DISSEMINATION_H_

#include "collectives/schedule.h"

namespace gradwire {

Schedule MakeDisseminationBarrier(int rank, int world_size, int root);

WireTotals DisseminationTotals(int world_size);

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_ALGORITHMS_DISSEMINATION_DISSEMINATION_H_
