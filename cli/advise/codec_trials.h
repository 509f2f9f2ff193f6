// What codecs cost and lose on this machine, with all ranks at work as in a training step.
#ifndef GRADWIRE_CLI_ADVISE_CODEC_TRIALS_H_
#define GRADWIRE_CLI_ADVISE_CODEC_TRIALS_H_

#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "cli/measure/progress.h"
#include "cli/models/model_shapes.h"
#include "gradwire/gradwire.h"
#include "runtime/controller/model.h"
#include "runtime/controller/probe.h"
#include "runtime/spec/auto_spec.h"

namespace gradwire {

// By candidate of `job`, which is JobOf(model, automatic, ...): the mean time over all tensors that
// can use it, each its fastest try, and the largest error of any of them, both the worst of the
// ranks; nothing where a rank could try no piece of a tensor. On synthetic gradients. `progress`
// counts the tensors. Collective.
StatusOr<std::vector<std::optional<ProbeReport>>> TryCodecs(gwComm_t comm, const JobFacts& job,
                                                            const ModelShapes& model,
                                                            const AutoSpec& automatic,
                                                            const Clock& clock, Progress* progress);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_ADVISE_CODEC_TRIALS_H_
