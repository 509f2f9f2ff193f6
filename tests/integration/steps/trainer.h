// A rank that trains: tensors of several codecs, gradients that are a function of (rank, step,
// tensor, element), and everything a step gives back.
#ifndef GRADWIRE_TESTS_INTEGRATION_STEPS_TRAINER_H_
#define GRADWIRE_TESTS_INTEGRATION_STEPS_TRAINER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gradwire/gradwire.h"

namespace gradwire {

struct TrainedTensor {
  std::string name;
  std::string spec;  // empty: what the setting `compress` says
  int64_t elems;
};

// One of each kind: exact, cast, with feedback, without, sign.
std::vector<TrainedTensor> SomeTensors();

struct StepResult {
  gwResult_t code = gwSuccess;  // of the first call that failed
  gwStepOutcome_t outcome = gwStepAborted;
  std::string text;  // gwGetLastError where it was not committed
  std::vector<std::vector<float>> out;
};

class Trainer {
 public:
  using Gradient = std::function<void(uint64_t step, std::vector<std::vector<float>>* grads)>;

  // Registers the tensors; a failure is the test's.
  Trainer(gwComm_t comm, int rank, std::vector<TrainedTensor> tensors);

  // Changes gradients before they are sent. Empty: none.
  Gradient change;
  float loss_scale = 1.0f;
  bool gives_up = false;         // gwStepAbort instead of gwStepEnd, for want of memory
  bool wait_for_outcome = true;  // otherwise gwStepEnd(NULL), and the outcome counts as committed

  // One step, each tensor an operation of its own but for the last two, which are a group.
  StepResult Step(uint64_t step);
  // Again and again until it is committed. `aborts` gets the texts of the others.
  StepResult StepUntilCommitted(uint64_t step, std::vector<std::string>* aborts);
  // The same all-reduces in no step.
  StepResult OutsideSteps(uint64_t step);

  std::vector<std::vector<float>> Gradients(uint64_t step) const;
  const std::vector<gwTensor_t>& handles() const { return handles_; }

 private:
  gwResult_t SubmitAndWait(const std::vector<std::vector<float>>& grads,
                           std::vector<std::vector<float>>* out);

  gwComm_t comm_;
  int rank_;
  std::vector<TrainedTensor> tensors_;
  std::vector<gwTensor_t> handles_;
};

// Bit for bit.
bool SameBits(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b);
bool AllFinite(const std::vector<std::vector<float>>& values);

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_INTEGRATION_STEPS_TRAINER_H_
