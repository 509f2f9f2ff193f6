#include "tests/integration/steps/retried_training.h"

#include <gtest/gtest.h>

#include "tests/lib/capi_ranks.h"

namespace gradwire {
namespace {

constexpr uint64_t kSteps = 8;

}  // namespace

TrainedRank TrainRank(gwComm_t comm, int rank, const std::vector<TrainedTensor>& tensors,
                      const BeforeStep& before) {
  TrainedRank run;
  Trainer trainer(comm, rank, tensors);
  for (uint64_t step = 0; step < kSteps; ++step) {
    if (before) before(step, &trainer);
    run.steps.push_back(trainer.StepUntilCommitted(step, &run.aborts));
    if (run.steps.back().outcome != gwStepCommitted) break;
    run.states.push_back(SavedState(comm));
  }
  return run;
}

void ExpectSameBits(const TrainedRank& good, const TrainedRank& bad) {
  ASSERT_EQ(good.states.size(), kSteps);
  ASSERT_EQ(bad.states.size(), kSteps);
  for (uint64_t step = 0; step < kSteps; ++step) {
    EXPECT_TRUE(SameBits(good.steps[step].out, bad.steps[step].out)) << "step " << step;
    EXPECT_EQ(good.states[step], bad.states[step]) << "step " << step;
  }
}

BeforeStep DisagreeAtFirst(int rank, int world_size) {
  return [rank, world_size](uint64_t step, Trainer* trainer) {
    const std::vector<TrainedTensor> tensors = SomeTensors();
    const size_t odd = step % tensors.size();
    const bool is_odd = rank == static_cast<int>(step) % world_size;
    if (is_odd) {
      ASSERT_EQ(gwTensorSetSpec(trainer->handles()[odd], "qsgd(bits=6)"), gwSuccess);
    }
    const StepResult result = trainer->Step(step);
    EXPECT_EQ(result.outcome, gwStepAborted);
    EXPECT_NE(result.text.find("; spec: "), std::string::npos) << result.text;
    if (is_odd) {
      ASSERT_EQ(gwTensorSetSpec(trainer->handles()[odd], tensors[odd].spec.c_str()), gwSuccess);
    }
  };
}

}  // namespace gradwire
