// What a step allows, what a NaN does, what the loss scale does, and ending without waiting.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/steps/trainer.h"
#include "tests/lib/capi_ranks.h"

namespace gradwire {
namespace {

using testing::HasSubstr;

constexpr int kRanks = 3;
constexpr const char* kSmallSlices = "slice_elems=256";

TEST(StepRules, WrongCallsInAStepHaveNoEffect) {
  RunRanks(kRanks, kSmallSlices, [](int rank, gwComm_t comm) {
    Trainer trainer(comm, rank, SomeTensors());
    const gwTensor_t tensor = trainer.handles()[2];
    std::vector<float> grad(3001, 1.0f), out(3001);
    gwRequest_t request = nullptr, second = nullptr;
    gwStepOutcome_t outcome = gwStepAborted;
    size_t bytes = 0;
    ASSERT_EQ(gwStepBegin(comm, 7), gwSuccess);
    EXPECT_EQ(gwStepBegin(comm, 8), gwInvalidUsage);
    for (float scale : {0.0f, -1.0f, std::nanf(""), std::numeric_limits<float>::infinity()}) {
      EXPECT_EQ(gwStepSetLossScale(comm, scale), gwInvalidArgument) << scale;
    }
    ASSERT_EQ(gwAllReduceTensor(tensor, grad.data(), out.data(), gwAvg, nullptr, &request),
              gwSuccess);
    EXPECT_EQ(gwStepSetLossScale(comm, 2.0f), gwInvalidUsage);
    EXPECT_EQ(gwAllReduceTensor(tensor, grad.data(), out.data(), gwAvg, nullptr, &second),
              gwInvalidUsage);
    const std::string text = gwGetLastError(comm);
    EXPECT_NE(text.find("'kept'"), std::string::npos) << text;
    EXPECT_NE(text.find("second name"), std::string::npos) << text;
    EXPECT_EQ(second, nullptr);
    EXPECT_EQ(gwTensorSetSpec(tensor, "bf16"), gwInvalidUsage);
    EXPECT_EQ(gwTensorDeregister(tensor), gwInvalidUsage);
    EXPECT_EQ(gwStateSave(comm, nullptr, &bytes), gwInvalidUsage);
    EXPECT_EQ(gwStateLoad(comm, &bytes, sizeof bytes), gwInvalidUsage);
    ASSERT_EQ(gwRequestWait(request, -1), gwSuccess) << gwGetLastError(comm);
    // Complete, but the step is still open.
    EXPECT_EQ(gwAllReduceTensor(tensor, grad.data(), out.data(), gwAvg, nullptr, &second),
              gwInvalidUsage);
    EXPECT_EQ(gwRequestFree(request), gwSuccess);
    ASSERT_EQ(gwStepEnd(comm, &outcome), gwSuccess) << gwGetLastError(comm);
    EXPECT_EQ(outcome, gwStepCommitted);
    for (float value : out) ASSERT_NEAR(value, 1.0f, 0.1f);
    EXPECT_EQ(trainer.Step(8).outcome, gwStepCommitted) << gwGetLastError(comm);
  });
}

// A group of two types is two operations. The other rank takes its time with the second.
TEST(StepRules, ATimeOutNamesTheTensorThatIsWaitedFor) {
  constexpr int64_t kElems = 100, kTryNs = 20'000'000;
  std::atomic<bool> is_told{false};
  RunRanks(2, "", [&](int rank, gwComm_t comm) {
    gwTensor_t tensors[2];
    ASSERT_EQ(gwTensorRegister(comm, "first", &kElems, 1, gwFloat32, nullptr, &tensors[0]),
              gwSuccess);
    ASSERT_EQ(gwTensorRegister(comm, "second", &kElems, 1, gwFloat16, nullptr, &tensors[1]),
              gwSuccess);
    std::vector<float> first(kElems);
    std::vector<uint16_t> second(kElems);
    void* data[2] = {first.data(), second.data()};
    gwRequest_t requests[2] = {};
    if (rank == 0) {
      ASSERT_EQ(gwAllReduceTensors(2, tensors, data, data, gwSum, nullptr, &requests[0]),
                gwSuccess);
      std::string text;
      for (int tries = 0; text.find("second") == std::string::npos && tries < 200; ++tries) {
        EXPECT_EQ(gwRequestWait(requests[0], kTryNs), gwTimeout);
        text = gwGetLastError(comm);
      }
      is_told = true;
      EXPECT_NE(text.find("second"), std::string::npos) << text;
      EXPECT_EQ(text.find("first"), std::string::npos) << text;
    }
    for (int t = 0; rank == 1 && t < 2; ++t) {
      while (t == 1 && !is_told) std::this_thread::yield();
      ASSERT_EQ(gwAllReduceTensor(tensors[t], data[t], data[t], gwSum, nullptr, &requests[t]),
                gwSuccess);
    }
    for (gwRequest_t request : requests) {
      if (request == nullptr) continue;
      EXPECT_EQ(gwRequestWait(request, -1), gwSuccess) << gwGetLastError(comm);
      EXPECT_EQ(gwRequestFree(request), gwSuccess);
    }
  });
}

// A residual, the quota of top-k, an average: one of each kind of what codecs keep.
std::vector<TrainedTensor> KeepingTensors() {
  return {{"residual", "qsgd(bits=4,feedback=on)", 3001},
          {"quota", "topk(0.05)", 2000},
          {"average", "signsgd(momentum=0.9,min_numel=0)", 500},
          {"exact", "none", 100}};
}

// Whose results nobody wants.
void DiscardedStep(gwComm_t comm, const Trainer& trainer, uint64_t step) {
  std::vector<std::vector<float>> grads = trainer.Gradients(step);
  gwStepOutcome_t outcome = gwStepAborted;
  ASSERT_EQ(gwStepBegin(comm, step), gwSuccess);
  EXPECT_EQ(gwTensorDiscardStep(trainer.handles()[0]), gwInvalidUsage) << "not submitted yet";
  for (size_t t = 0; t < grads.size(); ++t) {
    gwRequest_t request = nullptr;
    ASSERT_EQ(gwAllReduceTensor(trainer.handles()[t], grads[t].data(), grads[t].data(), gwSum,
                                nullptr, &request),
              gwSuccess);
    ASSERT_EQ(gwRequestWait(request, -1), gwSuccess) << gwGetLastError(comm);
    EXPECT_EQ(gwRequestFree(request), gwSuccess);
    EXPECT_EQ(gwTensorDiscardStep(trainer.handles()[t]), gwSuccess) << gwGetLastError(comm);
  }
  ASSERT_EQ(gwStepEnd(comm, &outcome), gwSuccess) << gwGetLastError(comm);
  EXPECT_EQ(outcome, gwStepCommitted);
}

TEST(StepRules, ADiscardedStepLeavesWhatCodecsKeep) {
  RunRanks(kRanks, kSmallSlices, [](int rank, gwComm_t comm) {
    Trainer trainer(comm, rank, KeepingTensors());
    DiscardedStep(comm, trainer, 0);
    EXPECT_EQ(trainer.Step(1).outcome, gwStepCommitted) << gwGetLastError(comm);
    const std::string before = SavedState(comm);
    DiscardedStep(comm, trainer, 2);
    EXPECT_EQ(SavedState(comm), before);
    EXPECT_EQ(trainer.Step(3).outcome, gwStepCommitted) << gwGetLastError(comm);
    EXPECT_NE(SavedState(comm), before);
  });
}

// With one slot the residual has gone out, and what the step left of it is used.
TEST(StepRules, ADiscardedStepWithoutTransactionsIsNoError) {
  RunRanks(kRanks, "slice_elems=256; transaction=off", [](int rank, gwComm_t comm) {
    Trainer trainer(comm, rank, KeepingTensors());
    for (uint64_t step = 0; step < 4; step += 2) {
      DiscardedStep(comm, trainer, step);
      EXPECT_EQ(trainer.Step(step + 1).outcome, gwStepCommitted) << gwGetLastError(comm);
    }
  });
}

// One bad value on one rank in each tensor in turn.
void CheckNonFinite(const std::string& policy, float bad, gwStepOutcome_t expected) {
  RunRanks(kRanks, "slice_elems=256; nonfinite=" + policy, [&](int rank, gwComm_t comm) {
    const size_t tensors = SomeTensors().size();
    Trainer trainer(comm, rank, SomeTensors());
    ASSERT_EQ(trainer.Step(0).outcome, gwStepCommitted);
    for (size_t t = 0; t < tensors; ++t) {
      SCOPED_TRACE(SomeTensors()[t].name + ", " + policy);
      const std::string before = SavedState(comm);
      if (rank == 1) {
        trainer.change = [t, bad](uint64_t, std::vector<std::vector<float>>* grads) {
          (*grads)[t][(*grads)[t].size() / 2] = bad;
        };
      }
      const StepResult step = trainer.Step(2 * t + 1);
      // With the same gradients it would fail again: no abort to be run again, but an error.
      ASSERT_EQ(step.code, policy == "error" ? gwNonFinite : gwSuccess) << step.text;
      EXPECT_EQ(step.outcome, expected) << step.text;
      if (expected == gwStepCommitted) {
        EXPECT_FALSE(AllFinite({step.out[t]}));
      } else {
        EXPECT_THAT(step.text, HasSubstr("NaN"));
        EXPECT_THAT(step.text, HasSubstr("'" + SomeTensors()[t].name + "'"));
        EXPECT_THAT(step.text, HasSubstr(policy == "error" ? "gradients of rank 1 hold" : "seen"));
        EXPECT_EQ(SavedState(comm), before);
      }
      // A residual that had taken it in would show up now.
      trainer.change = nullptr;
      const StepResult next = trainer.Step(2 * t + 2);
      EXPECT_EQ(next.outcome, gwStepCommitted) << next.text;
      EXPECT_TRUE(AllFinite(next.out));
    }
  });
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(NonFinite, PropagatesByDefault) {
  CheckNonFinite("propagate", kNan, gwStepCommitted);
  CheckNonFinite("propagate", -kInf, gwStepCommitted);
}
TEST(NonFinite, SkipsTheStepOnAllRanks) {
  CheckNonFinite("skip", kNan, gwStepSkipped);
  CheckNonFinite("skip", kInf, gwStepSkipped);
}
TEST(NonFinite, IsAnErrorOnAllRanks) {
  CheckNonFinite("error", kNan, gwStepAborted);
  CheckNonFinite("error", kInf, gwStepAborted);
}

TEST(NonFinite, OutsideAStepSaysNothingAboutTheNextStep) {
  RunRanks(kRanks, "nonfinite=skip", [](int rank, gwComm_t comm) {
    Trainer trainer(comm, rank, SomeTensors());
    trainer.change = [](uint64_t, std::vector<std::vector<float>>* grads) {
      for (auto& grad : *grads) grad[0] = kNan;
    };
    EXPECT_EQ(trainer.OutsideSteps(0).code, gwSuccess);
    trainer.change = nullptr;
    const StepResult step = trainer.Step(1);
    EXPECT_EQ(step.outcome, gwStepCommitted) << step.text;
    EXPECT_TRUE(AllFinite(step.out));
  });
}

std::vector<std::string> StatesAfter(float scale, bool wait, int steps,
                                     std::vector<StepResult>* results) {
  std::vector<std::string> states(kRanks);
  RunRanks(kRanks, kSmallSlices, [&](int rank, gwComm_t comm) {
    Trainer trainer(comm, rank, SomeTensors());
    trainer.loss_scale = scale;
    trainer.wait_for_outcome = wait;
    for (int step = 0; step < steps; ++step) {
      StepResult result = trainer.Step(static_cast<uint64_t>(step));
      ASSERT_EQ(result.code, gwSuccess) << result.text;
      ASSERT_EQ(result.outcome, gwStepCommitted) << result.text;
      if (rank == 0) results->push_back(std::move(result));
    }
    states[rank] = SavedState(comm);
  });
  return states;
}

TEST(StepEnd, WithoutWaitingGivesTheSameBits) {
  std::vector<StepResult> waited, not_waited;
  EXPECT_EQ(StatesAfter(1, true, 6, &waited), StatesAfter(1, false, 6, &not_waited));
  ASSERT_EQ(waited.size(), not_waited.size());
  for (size_t i = 0; i < waited.size(); ++i) {
    EXPECT_TRUE(SameBits(waited[i].out, not_waited[i].out)) << "step " << i;
  }
}

TEST(StepEnd, WithoutWaitingIsRefusedUnderSkip) {
  RunRanks(2, "nonfinite=skip", [](int rank, gwComm_t comm) {
    ASSERT_EQ(gwStepBegin(comm, 0), gwSuccess);
    EXPECT_EQ(gwStepEnd(comm, nullptr), gwInvalidUsage);
    gwStepOutcome_t outcome = gwStepAborted;
    EXPECT_EQ(gwStepEnd(comm, &outcome), gwSuccess) << gwGetLastError(comm);
    EXPECT_EQ(outcome, gwStepCommitted);
    EXPECT_TRUE(AllReduceWorks(rank, 2, comm));
  });
}

// Nobody waits for what it would have submitted.
TEST(StepAbort, EndsTheStepOfAllRanksAmidTheirOperations) {
  RunRanks(kRanks, "", [](int rank, gwComm_t comm) {
    Trainer trainer(comm, rank, SomeTensors());
    if (rank == 1) {
      ASSERT_EQ(gwStepBegin(comm, 0), gwSuccess);
      EXPECT_EQ(gwStepAbort(comm, nullptr), gwSuccess) << gwGetLastError(comm);
    } else {
      const StepResult failed = trainer.Step(0);
      EXPECT_EQ(failed.code, gwAborted);
      EXPECT_EQ(failed.outcome, gwStepAborted);
      EXPECT_NE(failed.text.find("rank 1 gave the step up"), std::string::npos) << failed.text;
    }
    EXPECT_EQ(trainer.Step(0).outcome, gwStepCommitted) << gwGetLastError(comm);
  });
}

// The caller may have updated already, so there is no going back.
TEST(StepEnd, AnAbortThatNobodyWaitsForEndsTheCommunicator) {
  RunRanks(kRanks, "nonfinite=error", [](int rank, gwComm_t comm) {
    Trainer trainer(comm, rank, SomeTensors());
    trainer.wait_for_outcome = false;
    trainer.change = [rank](uint64_t, std::vector<std::vector<float>>* grads) {
      if (rank == 2) (*grads)[2][5] = kNan;
    };
    EXPECT_EQ(trainer.Step(0).code, gwSuccess);
    gwResult_t result = gwSuccess;
    for (uint64_t step = 1; step < 4 && result == gwSuccess; ++step) {
      result = trainer.Step(step).code;
    }
    EXPECT_EQ(result, gwRevoked) << gwGetLastError(comm);
    EXPECT_THAT(gwGetLastError(comm), HasSubstr("gradients of rank 2 hold a NaN"));
    EXPECT_THAT(gwGetLastError(comm), HasSubstr("'" + SomeTensors()[2].name + "'"));
    gwResult_t error = gwSuccess;
    EXPECT_EQ(gwCommGetAsyncError(comm, &error), gwSuccess);
    EXPECT_EQ(error, gwRevoked);
  });
}

// Also where the next call is no step: a checkpoint of weights that an aborted step has changed
// must not be taken for a good one.
TEST(StepEnd, AnAbortThatNobodyWaitedForIsToldByTheNextCall) {
  for (const bool saves : {true, false}) {
    RunRanks(kRanks, "nonfinite=error", [saves](int rank, gwComm_t comm) {
      Trainer trainer(comm, rank, SomeTensors());
      trainer.wait_for_outcome = false;
      trainer.change = [rank](uint64_t, std::vector<std::vector<float>>* grads) {
        if (rank == 2) (*grads)[2][5] = kNan;
      };
      EXPECT_EQ(trainer.Step(0).code, gwSuccess);
      size_t bytes = 0;
      const gwResult_t told = saves ? gwStateSave(comm, nullptr, &bytes) : gwCommFinalize(comm);
      EXPECT_EQ(told, gwRevoked) << gwGetLastError(comm);
      EXPECT_THAT(gwGetLastError(comm), HasSubstr("gradients of rank 2 hold a NaN"));
    });
  }
}

TEST(LossScale, OfAPowerOfTwoChangesNothingButTheUnits) {
  constexpr float kScale = 1024;
  std::vector<StepResult> plain, scaled;
  EXPECT_EQ(StatesAfter(1, true, 5, &plain), StatesAfter(kScale, true, 5, &scaled));
  ASSERT_EQ(plain.size(), scaled.size());
  for (size_t i = 0; i < plain.size(); ++i) {
    for (auto& array : plain[i].out) {
      for (float& value : array) value *= kScale;
    }
    EXPECT_TRUE(SameBits(plain[i].out, scaled[i].out)) << "step " << i;
  }
}

TEST(LossScale, MayBeAnyPositiveNumber) {
  RunRanks(2, "", [](int rank, gwComm_t comm) {
    Trainer trainer(comm, rank, SomeTensors());
    uint64_t step = 0;
    for (float scale : {1000.0f, 0.1f, 1e-30f, 1e-44f, 1e30f, 3e38f}) {
      trainer.loss_scale = scale;
      trainer.change = [](uint64_t, std::vector<std::vector<float>>* grads) {
        for (auto& grad : *grads) {
          for (float& value : grad) value = 0;
        }
      };
      const StepResult result = trainer.Step(step++);
      EXPECT_EQ(result.outcome, gwStepCommitted) << scale << ": " << result.text;
      EXPECT_TRUE(AllFinite(result.out)) << scale;
    }
  });
}

// A majority does not grow with the gradients, which carry what is no power of two.
TEST(LossScale, MultipliesMajoritiesOfSigns) {
  RunRanks(kRanks, "", [](int rank, gwComm_t comm) {
    Trainer trainer(comm, rank, {{"w", "signsgd", 2000}});
    uint64_t step = 0;
    for (const float scale : {1.0f, 1000.0f, 1.5f, 0.1f}) {
      trainer.loss_scale = scale;
      const StepResult result = trainer.Step(step++);
      ASSERT_EQ(result.outcome, gwStepCommitted) << result.text;
      for (const float value : result.out[0]) {
        if (value == 0) continue;  // as many for as against
        ASSERT_FLOAT_EQ(std::abs(value), kRanks * scale);
      }
    }
  });
}

// By powers of two, from any: what compression kept back comes later, in the later step's unit.
TEST(LossScale, MayChangeFromStepToStep) {
  RunRanks(kRanks, kSmallSlices, [](int rank, gwComm_t comm) {
    const TrainedTensor tensor = {"w", "qsgd(bits=4,feedback=on)", 2000};
    Trainer trainer(comm, rank, {tensor});
    std::vector<double> total(tensor.elems);
    const float scales[] = {1.5f, 1536.0f, 0.375f, 98304.0f, 0.01171875f};
    for (uint64_t step = 0; step < 40; ++step) {
      trainer.loss_scale = scales[step % 5];
      const StepResult result = trainer.Step(step);
      ASSERT_EQ(result.outcome, gwStepCommitted) << result.text;
      for (int64_t i = 0; i < tensor.elems; ++i) {
        total[i] += static_cast<double>(result.out[0][i]) / trainer.loss_scale;
      }
    }
    // What is missing after 40 steps is one step's residual.
    std::vector<float> exact(tensor.elems);
    std::vector<double> sum(tensor.elems);
    trainer.loss_scale = 1;
    for (uint64_t step = 0; step < 40; ++step) {
      const std::vector<float> grad = trainer.Gradients(step)[0];
      ASSERT_EQ(
          gwAllReduce(grad.data(), exact.data(), exact.size(), gwFloat32, gwSum, comm, nullptr),
          gwSuccess);
      for (int64_t i = 0; i < tensor.elems; ++i) sum[i] += exact[i];
    }
    double error2 = 0, energy = 0;
    for (int64_t i = 0; i < tensor.elems; ++i) {
      error2 += (total[i] - sum[i]) * (total[i] - sum[i]);
      energy += sum[i] * sum[i];
    }
    EXPECT_LT(std::sqrt(error2 / energy), 0.08);
  });
}

}  // namespace
}  // namespace gradwire
