// How long the exchange of a model's gradients takes on this link.
#ifndef GRADWIRE_CLI_ADVISE_LINK_STEPS_H_
#define GRADWIRE_CLI_ADVISE_LINK_STEPS_H_

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "cli/models/model_shapes.h"
#include "gradwire/gradwire.h"

namespace gradwire {

// For each of `specs` on all tensors: the lower quartile of steps that compute nothing, in
// milliseconds, by the slowest rank. In such a step an operation is under way all the time.
// Registers the tensors. Collective.
StatusOr<std::vector<double>> MeasureLinkSteps(gwComm_t comm, const ModelShapes& model,
                                               const std::vector<std::string>& specs,
                                               const Clock& clock);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_ADVISE_LINK_STEPS_H_
