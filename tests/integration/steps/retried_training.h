// A rank that trains some steps, each again until it is committed, and what it has then.
#ifndef GRADWIRE_TESTS_INTEGRATION_STEPS_RETRIED_TRAINING_H_
#define GRADWIRE_TESTS_INTEGRATION_STEPS_RETRIED_TRAINING_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gradwire/gradwire.h"
#include "tests/integration/steps/trainer.h"

namespace gradwire {

struct TrainedRank {
  std::vector<StepResult> steps;    // as they were committed
  std::vector<std::string> states;  // saved after each of them
  std::vector<std::string> aborts;  // the texts of all that were not
};

// What a rank does before a step.
using BeforeStep = std::function<void(uint64_t step, Trainer* trainer)>;

// `comm` has slices of some hundred elements, so that the tensors have several.
TrainedRank TrainRank(gwComm_t comm, int rank, const std::vector<TrainedTensor>& tensors,
                      const BeforeStep& before = nullptr);

// Every output and every state, bit for bit. Differences are the test's failures.
void ExpectSameBits(const TrainedRank& good, const TrainedRank& bad);

// Before each step of SomeTensors(): a try in which another rank has another spec for one of them,
// which is aborted on all ranks.
BeforeStep DisagreeAtFirst(int rank, int world_size);

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_INTEGRATION_STEPS_RETRIED_TRAINING_H_
