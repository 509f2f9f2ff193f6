#include "runtime/controller/bounds.h"

#include <cmath>

namespace gradwire {
namespace {

// Where the ranks' gradients have nothing in common, the worst case: all ranks' errors, and the
// owners', over the sum of the energies.
double SumError(double relative_error, int world_size) {
  const double n = world_size;
  return std::sqrt(relative_error * (2 * n - 1) / n);
}

// Once what goes in equals what is lost.
double Lag(double relative_error) {
  return relative_error < 1 ? std::sqrt(relative_error / (1 - relative_error)) : INFINITY;
}

}  // namespace

double Distance(const Candidate& candidate, double relative_error, int world_size) {
  return candidate.feedback ? Lag(relative_error) : SumError(relative_error, world_size);
}

}  // namespace gradwire
