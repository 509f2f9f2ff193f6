// How much of the mean gradient's energy a sparse method finds in one step, and what other choices
// of as many elements would have found.
#ifndef GRADWIRE_BENCH_ENERGY_ENERGY_H_
#define GRADWIRE_BENCH_ENERGY_ENERGY_H_

#include <cstdint>
#include <string>

#include "base/status.h"

namespace gradwire {

// Heavy tails: element i of rank r is s_i (sqrt(c) x_i + sqrt(1 - c) y_ir), with s the exponential
// of a normal number, x and y from Student's distribution with 3 degrees of freedom, and c the
// correlation. All are drawn anew in each step; the residual is empty.
struct EnergyCase {
  double correlation = 0;
  int ranks = 8;
  int64_t elems = 20000;
  int settling_steps = 8;  // not measured: state (the quota of topk) comes from them
  int steps = 64;
  uint64_t seed = 1;
};

// Means over the steps. Energies are shares of that of the mean gradient, 0 to 1.
struct EnergyFound {
  double values = 0;  // elements in the result
  double bits = 0;    // per element of the tensor: carriers of all rounds, or a payload
  double method = 0;
  double leader = 0;  // the largest of one rank, another in each step
  double best = 0;    // the largest of the mean itself, which no rank knows
};

// `spec` is of a sparse method: a carrier whose last round sums the elements that it sends, or a
// payload, of which blocks are owned in turn.
StatusOr<EnergyFound> FindEnergy(const std::string& spec, const EnergyCase& c);

}  // namespace gradwire

#endif  // GRADWIRE_BENCH_ENERGY_ENERGY_H_
