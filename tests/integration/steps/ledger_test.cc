// gwCommGetLedger tells where a tensor has not, or not quite, what its spec asks for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tests/lib/capi_ranks.h"

namespace gradwire {
namespace {

using testing::HasSubstr;

// The ledger with one tensor in it.
std::string LedgerOf(const std::vector<int64_t>& shape, const char* spec, int ranks = 1) {
  std::string text;
  RunRanks(ranks, "", [&](int rank, gwComm_t comm) {
    gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
    config.spec = spec;
    gwTensor_t tensor = nullptr;
    ASSERT_EQ(gwTensorRegister(comm, "layer.bias", shape.data(), static_cast<int>(shape.size()),
                               gwFloat32, &config, &tensor),
              gwSuccess)
        << gwGetLastError(comm);
    if (rank == 0) text = LedgerText(comm);
  });
  return text;
}

TEST(Ledger, TellsOfARankThatIsClamped) {
  EXPECT_THAT(LedgerOf({4, 100}, "acp(rank=8,min_numel=0)"),
              HasSubstr("\"note\": \"rank 4 of 8, for the matrix is 4 x 100\""));
  EXPECT_THAT(LedgerOf({400, 100}, "powersgd(rank=8)"), HasSubstr("\"note\": \"\""));
  EXPECT_THAT(LedgerOf({2, 1000}, "acp(rank=3,start_step=5)"), HasSubstr("rank 2 of 3"));
}

TEST(Ledger, TellsOfADensityThatIsRounded) {
  EXPECT_THAT(LedgerOf({60}, "topk(0.01,min_numel=0)"), HasSubstr("rounded to 1 of 60 elements"));
}

TEST(Ledger, TellsWhyATensorIsExempt) {
  EXPECT_THAT(
      LedgerOf({512}, "topk(0.01)"),
      HasSubstr("\"note\": \"exempt from topk(density=0.01,agreement=speakers,feedback=on): "
                "512 elements < min_numel 1024\""));
  EXPECT_THAT(LedgerOf({4096}, "powersgd"), HasSubstr("dimensions 1 < 2\""));
  EXPECT_THAT(LedgerOf({2, 768}, "powersgd(rank=4)"),
              HasSubstr("its factors have 6160 bytes, the matrix 6144\""));
  EXPECT_THAT(LedgerOf({4096}, "efsign(exclude=\"*.bias\")"), HasSubstr("matches exclude"));
  EXPECT_THAT(LedgerOf({4096}, "efsign"), HasSubstr("\"note\": \"\""));
}

TEST(Ledger, TellsWhichTensorsKeepState) {
  for (const char* spec : {"none", "bf16", "fp16", "qsgd(bits=8)", "qsgd(bits=4,sum=carrier)",
                           "terngrad", "signsgd"}) {
    EXPECT_THAT(LedgerOf({64, 64}, spec), HasSubstr("\"keeps_state\": false")) << spec;
  }
  // A residual, an average of one rank's own, one of all ranks', and a plan.
  for (const char* spec : {"qsgd(bits=4,feedback=on)", "topk(0.01)", "signsgd(momentum=0.9)",
                           "intsgd", "powersgd", "auto"}) {
    EXPECT_THAT(LedgerOf({64, 64}, spec), HasSubstr("\"keeps_state\": true")) << spec;
  }
}

// Keeps the thread busy.
void ComputeFor(int64_t ns) {
  const Deadline end = Deadline::After(SteadyClock(), ns);
  while (!end.Expired(SteadyClock())) {
  }
}

// Rank 0 computes, and the other one waits for it.
TEST(Ledger, TellsHowLongStepsTakeOnceOneHasEnded) {
  constexpr int kSteps = 5, kComputeMs = 5;
  RunRanks(2, "", [&](int rank, gwComm_t comm) {
    for (uint64_t step = 0; step < kSteps; ++step) {
      EXPECT_EQ(LedgerText(comm).find("\"steps\": null") != std::string::npos, step < 2);
      ASSERT_EQ(gwStepBegin(comm, step), gwSuccess);
      if (rank == 0) ComputeFor(kComputeMs * kNsPerMs);
      gwStepOutcome_t outcome = gwStepAborted;
      ASSERT_EQ(gwStepEnd(comm, &outcome), gwSuccess);
    }
    const auto steps = nlohmann::json::parse(LedgerText(comm)).at("steps");
    EXPECT_EQ(steps.at("measured"), kSteps - 1);
    EXPECT_GT(steps.at("exposed_comm_ms"), 0);
    EXPECT_GE(steps.at("step_ms"), steps.at(rank == 0 ? "compute_ms" : "exposed_comm_ms"));
    EXPECT_GE(steps.at("compute_ms"), rank == 0 ? kComputeMs : 0);
  });
}

// The number behind `field` in the ledger of one tensor.
int64_t NumberIn(const std::string& ledger, const std::string& field) {
  const size_t at = ledger.find("\"" + field + "\": ");
  return at == std::string::npos ? -1 : std::stoll(ledger.substr(at + field.size() + 4));
}

TEST(Ledger, TellsWhatCodecsKeep) {
  constexpr int64_t kShape[] = {64, 64}, kElems = 64 * 64;
  struct Case {
    const char *spec, *settings;
    int64_t residual_bytes, method_bytes;
  };
  for (const Case& c : {Case{"qsgd(bits=4,feedback=on)", "", 2 * 4 * kElems, 0},
                        Case{"qsgd(bits=4,feedback=on)", "transaction=off", 4 * kElems, 0},
                        Case{"qsgd(bits=8)", "", 0, 0},
                        // An average of each rank's own, and a basis of four columns and a word.
                        Case{"signsgd(momentum=0.9)", "", 0, 2 * 4 * kElems},
                        Case{"signsgd(momentum=0.9)", "transaction=off", 0, 4 * kElems},
                        Case{"acp(rank=4)", "transaction=off", 4 * kElems, 2 * 4 * (64 * 4 + 1)}}) {
    SCOPED_TRACE(std::string(c.spec) + " " + c.settings);
    RunRanks(2, c.settings, [&](int, gwComm_t comm) {
      gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
      config.spec = c.spec;
      gwTensor_t tensor = nullptr;
      ASSERT_EQ(gwTensorRegister(comm, "w", kShape, 2, gwFloat32, &config, &tensor), gwSuccess);
      EXPECT_EQ(NumberIn(LedgerText(comm), "residual_bytes"), c.residual_bytes);
      EXPECT_EQ(NumberIn(LedgerText(comm), "method_bytes"), c.method_bytes);
      EXPECT_EQ(NumberIn(LedgerText(comm), "held_bytes"), 0) << "before it is needed";
      std::vector<float> grad(kElems, 1.0f);
      gwRequest_t request = nullptr;
      gwStepOutcome_t outcome = gwStepAborted;
      ASSERT_EQ(gwStepBegin(comm, 0), gwSuccess);
      ASSERT_EQ(gwAllReduceTensor(tensor, grad.data(), grad.data(), gwSum, nullptr, &request),
                gwSuccess);
      ASSERT_EQ(gwRequestWait(request, -1), gwSuccess) << gwGetLastError(comm);
      EXPECT_EQ(gwRequestFree(request), gwSuccess);
      ASSERT_EQ(gwStepEnd(comm, &outcome), gwSuccess);
      EXPECT_EQ(NumberIn(LedgerText(comm), "held_bytes"), c.residual_bytes + c.method_bytes);
    });
  }
}

// One step with the tensor; then the number of the last one that counts for it.
int64_t CommittedAfter(gwComm_t comm, gwTensor_t tensor, int64_t step,
                       const std::function<void()>& before_end) {
  float grad = 1;
  gwRequest_t request = nullptr;
  EXPECT_EQ(gwStepBegin(comm, step), gwSuccess);
  EXPECT_EQ(gwAllReduceTensor(tensor, &grad, &grad, gwSum, nullptr, &request), gwSuccess);
  EXPECT_EQ(gwRequestWait(request, -1), gwSuccess) << gwGetLastError(comm);
  EXPECT_EQ(gwRequestFree(request), gwSuccess);
  before_end();
  gwStepOutcome_t outcome = gwStepAborted;
  EXPECT_EQ(gwStepEnd(comm, &outcome), gwSuccess);
  EXPECT_EQ(outcome, gwStepCommitted);
  return NumberIn(LedgerText(comm), "committed_step");
}

TEST(Ledger, TellsTheLastStepWithTheTensor) {
  for (const int ranks : {1, 2}) {
    for (const char* settings : {"", "transaction=off"}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks " + settings);
      RunRanks(ranks, settings, [](int, gwComm_t comm) {
        gwTensor_t tensor = nullptr;
        ASSERT_EQ(gwTensorRegister(comm, "w", nullptr, 0, gwFloat32, nullptr, &tensor), gwSuccess);
        EXPECT_EQ(CommittedAfter(comm, tensor, 7, [] {}), 7);
        const auto discard = [&] { EXPECT_EQ(gwTensorDiscardStep(tensor), gwSuccess); };
        EXPECT_EQ(CommittedAfter(comm, tensor, 8, discard), 7);
        float grad = 1;
        gwRequest_t request = nullptr;
        ASSERT_EQ(gwAllReduceTensor(tensor, &grad, &grad, gwSum, nullptr, &request), gwSuccess);
        EXPECT_EQ(gwRequestWait(request, -1), gwSuccess);
        EXPECT_EQ(gwRequestFree(request), gwSuccess);
        gwStepOutcome_t outcome = gwStepAborted;
        ASSERT_EQ(gwStepBegin(comm, 9), gwSuccess);
        ASSERT_EQ(gwStepEnd(comm, &outcome), gwSuccess);
        EXPECT_EQ(NumberIn(LedgerText(comm), "committed_step"), 7) << "of no step, or without it";
      });
    }
  }
}

// Whichever codecs it will have: what each of them keeps stays for it.
TEST(Ledger, TellsWhatAnAutomaticTensorMayKeep) {
  const std::string ledger = LedgerOf({64, 64}, "auto(allow=\"acp(rank=2),acp(rank=4)\")", 2);
  EXPECT_EQ(NumberIn(ledger, "method_bytes"), 2 * 4 * (64 * 2 + 1) + 2 * 4 * (64 * 4 + 1));
}

}  // namespace
}  // namespace gradwire
