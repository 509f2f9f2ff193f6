// When the gradients of a training step appear.
#ifndef GRADWIRE_CLI_TRAIN_GRADIENT_TIMES_H_
#define GRADWIRE_CLI_TRAIN_GRADIENT_TIMES_H_

#include <cstdint>
#include <vector>

#include "cli/models/model_shapes.h"

namespace gradwire {

// Of a step's computing: back-propagation does two products for each one of the forward pass, one
// for the gradient of the weights and one for that of the inputs.
inline constexpr double kForwardShare = 1.0 / 3;

// Nanoseconds of computing until the gradient of tensor i is complete: after the forward pass they
// appear last tensor first, each after a time in proportion to its elements. The first tensor's is
// complete at `compute_ns`.
std::vector<int64_t> GradientTimes(const ModelShapes& model, int64_t compute_ns);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TRAIN_GRADIENT_TIMES_H_
