// One rank of `gradwire train`: runs blocks of training steps through the public C API.
#ifndef GRADWIRE_CLI_TRAIN_RANK_TRAINER_H_
#define GRADWIRE_CLI_TRAIN_RANK_TRAINER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "cli/measure/progress.h"
#include "cli/train/computation.h"
#include "cli/train/step_memory.h"
#include "cli/train/train_options.h"
#include "cli/train/train_row.h"
#include "gradwire/gradwire.h"

namespace gradwire {

// All ranks make one for each communicator with equal options and run the same blocks in the same
// order. One thread.
class RankTrainer {
 public:
  // All of it, which outlives this, belongs to the rank.
  struct Parts {
    gwComm_t comm = nullptr;
    const TrainOptions* options = nullptr;
    const Clock* clock = nullptr;
    StepMemory* memory = nullptr;  // with the gradients
    Progress* progress = nullptr;  // counts the steps of a warm-up or block
  };
  explicit RankTrainer(const Parts& parts);

  // Before the first block: registers the tensors and tries `specs` (numbers in the options, at
  // least one), which the blocks will use. One that the library refuses is so on all ranks, with
  // its own words.
  Status Prepare(std::span<const int> specs);

  // A spec for each tensor. Returns its number for blocks, behind those of the options' specs.
  int AddPlan(std::vector<std::string> specs);
  // From the next step on, in place of the options'.
  void SetComputeMs(double ms);

  // Steps that no block counts. After an error, here and below, the communicator must be aborted,
  // because the others still wait.
  StatusOr<std::vector<StepTime>> WarmUp(int spec, int steps);
  StatusOr<BlockResult> RunBlock(const Block& block);

  // What the controller has decided; rank 0 alone knows.
  StatusOr<std::vector<PlanChange>> PlanChanges();

 private:
  struct FreeRequest {
    void operator()(gwRequest_t request) const { (void)gwRequestFree(request); }
  };
  using Request = std::unique_ptr<gwRequest, FreeRequest>;

  Status Register(int spec);
  Status UseSpec(int spec);
  const std::string& SpecOf(size_t tensor, int spec) const;
  StatusOr<StepTime> RunStep();
  Status ComputeAndSubmit(std::vector<Request>* requests);
  StatusOr<double> SentBytes();
  Status ReadLedgerInto(BlockResult* result);
  // The largest of each value over the ranks.
  Status CombineSteps(std::vector<StepTime>* steps);
  Status CombineBlock(BlockResult* result);

  const gwComm_t comm_;
  const TrainOptions& options_;
  const Clock& clock_;
  StepMemory& memory_;
  Progress& progress_;
  int rank_ = 0;
  std::unique_ptr<Computation> computation_;
  std::vector<gwTensor_t> tensors_;  // the communicator's, in forward order
  std::vector<std::vector<std::string>> plans_;
  double compute_ms_ = 0;
  std::vector<int64_t> ready_ns_;  // by tensor: of computing in a step
  int spec_ = 0;                   // in use
  uint64_t steps_ = 0;             // begun so far: the next one's number
};

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TRAIN_RANK_TRAINER_H_
