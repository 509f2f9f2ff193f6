// Bounds: how far from the exact sum a codec leads a training, from what it loses of a gradient.
#ifndef GRADWIRE_RUNTIME_CONTROLLER_BOUNDS_H_
#define GRADWIRE_RUNTIME_CONTROLLER_BOUNDS_H_

#include <optional>

#include "compress/registry.h"
#include "runtime/controller/model.h"
#include "runtime/controller/observation.h"

namespace gradwire {

ErrorSum ErrorSumOf(const Codec& codec);

inline constexpr double kNothingInCommon = 1;

// Those that add their gradients of one tensor.
struct Ranks {
  int count = 1;
  // The energy of their sum over the sum of their energies: `count` where they are all the same.
  double alike = kNothingInCommon;
};

// What `candidate` has to keep below its bound; `relative_error`: |x - decoded|^2 / |x|^2, of all
// that was encoded. Without feedback of |out - sum| / |sum| in one step; with feedback of what is
// kept back over the gradients, sqrt(sum |e_i|^2 / sum |g_i|^2), where that settles.
double Distance(const Candidate& candidate, double relative_error, const Ranks& ranks);

// What a step with a codec tells of a tensor.
struct Loss {
  double relative_error = 0;    // as for Distance; 0: nothing can be told
  std::optional<double> alike;  // Ranks::alike; nothing where no owner has encoded a sum
};
// `seen`: by all ranks together.
Loss LossOf(const Candidate& candidate, const TensorObservation& seen, int world_size);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CONTROLLER_BOUNDS_H_
