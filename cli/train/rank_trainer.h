// One rank of `gradwire train`: runs blocks of training steps through the public C API.
#ifndef GRADWIRE_CLI_TRAIN_RANK_TRAINER_H_
#define GRADWIRE_CLI_TRAIN_RANK_TRAINER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/workspace.h"
#include "cli/train/computation.h"
#include "cli/train/train_options.h"
#include "cli/train/train_row.h"
#include "gradwire/gradwire.h"

namespace gradwire {

// All ranks make one with equal options and run the same blocks in the same order. One thread.
class RankTrainer {
 public:
  // `comm`, `options` and `clock` outlive this.
  RankTrainer(gwComm_t comm, const TrainOptions& options, const Clock& clock);

  // Before the first block: registers the tensors and makes their gradients, three times the
  // model's memory. A spec that the library refuses is so on all ranks, with its own words.
  Status Prepare();

  // Steps that nobody looks at. After an error, here and below, the communicator must be aborted,
  // because the others still wait.
  Status WarmUp(int spec);
  StatusOr<BlockResult> RunBlock(const Block& block);

 private:
  struct Tensor {
    gwTensor_t handle = nullptr;  // the communicator's
    int64_t offset = 0;           // of its elements in the memory below
    int64_t elems = 0;
    double energy = 0;     // expected sum of squares of its gradient
    int64_t ready_ns = 0;  // of computing in a step
  };
  struct FreeRequest {
    void operator()(gwRequest_t request) const { (void)gwRequestFree(request); }
  };
  using Request = std::unique_ptr<gwRequest, FreeRequest>;

  Status Register();
  Status MakeGradients();
  Status UseSpec(int spec);
  StatusOr<StepTime> RunStep();
  Status ComputeAndSubmit(std::vector<Request>* requests);
  StatusOr<double> SentBytes();
  Status ReadLedgerInto(BlockResult* result);
  // The largest of each value over the ranks.
  Status CombineBlock(BlockResult* result);
  ComputeMemory MemoryOf(int64_t offset, int64_t elems);

  const gwComm_t comm_;
  const TrainOptions& options_;
  const Clock& clock_;
  int rank_ = 0;
  std::unique_ptr<Computation> computation_;
  std::vector<Tensor> tensors_;  // in forward order
  int64_t memory_elems_ = 0;     // of all tensors, with what aligns them
  // Gradients of even and of odd steps, so that no step sees those of the one before.
  std::array<AlignedBuffer, 2> gradients_;
  AlignedBuffer sums_;
  int spec_ = 0;        // in use
  uint64_t steps_ = 0;  // begun so far: the next one's number
};

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TRAIN_RANK_TRAINER_H_
