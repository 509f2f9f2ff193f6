// Steps of a model on this link, with synthetic gradients.
#ifndef GRADWIRE_CLI_ADVISE_STEP_TRIALS_H_
#define GRADWIRE_CLI_ADVISE_STEP_TRIALS_H_

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "cli/measure/progress.h"
#include "cli/models/model_shapes.h"
#include "cli/train/rank_trainer.h"
#include "cli/train/step_memory.h"
#include "cli/train/train_options.h"
#include "gradwire/gradwire.h"

namespace gradwire {

// All ranks make one and call the same in the same order; times are equal on all of them, in
// milliseconds by the slowest. Takes three times the model's memory, and what the codecs of its
// plans keep back. One thread.
class StepTrials {
 public:
  // All of it outlives this. `progress` counts the steps.
  StepTrials(gwComm_t comm, const ModelShapes& model, const Clock& clock, Progress* progress);
  StepTrials(const StepTrials&) = delete;
  StepTrials& operator=(const StepTrials&) = delete;

  // Registers the tensors. Before all else.
  Status Prepare();

  // All tensors on `spec`, in steps that compute nothing, in which an operation is under way all
  // the time: the lower quartile.
  StatusOr<double> LinkMs(const std::string& spec);

  // A plan, which has a spec for each tensor, that has made its first steps, which allocate.
  struct Started {
    int number = 0;
    double step_ms = 0;  // by a few steps only
  };
  // Steps compute for `compute_ms` from now on, which is to be the same in all calls.
  StatusOr<Started> Start(const std::vector<std::string>& plan, double compute_ms);
  // Medians, by plan, of steps as they were started with: the plans in turns.
  StatusOr<std::vector<double>> TryInTurns(const std::vector<Started>& plans);

 private:
  const gwComm_t comm_;
  const TrainOptions options_;
  const Clock& clock_;
  Progress& progress_;
  StepMemory memory_;
  std::optional<RankTrainer> trainer_;
};

}  // namespace gradwire

#endif  // GRADWIRE_CLI_ADVISE_STEP_TRIALS_H_
