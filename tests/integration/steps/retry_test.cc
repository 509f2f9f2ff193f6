// Damaged frames, payloads and ranks that disagree abort a step on all ranks, and the same step run
// again gives the bits of a run that never failed.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/integration/steps/trainer.h"
#include "tests/lib/capi_ranks.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

constexpr int kSteps = 8;

struct TrainedJob {
  std::vector<std::vector<StepResult>> steps;  // by rank
  std::vector<std::vector<std::string>> states;
  std::vector<std::string> aborts;  // as rank 0 heard of them
};

// What a rank does before a step.
using Before = std::function<void(int rank, uint64_t step, Trainer* trainer)>;

TrainedJob Train(
    int world_size, const std::string& settings,
    const std::vector<TrainedTensor>& tensors = SomeTensors(),
    const Before& before = [](int, uint64_t, Trainer*) {}) {
  TrainedJob run = {.steps = std::vector<std::vector<StepResult>>(world_size),
                    .states = std::vector<std::vector<std::string>>(world_size)};
  std::vector<std::vector<std::string>> aborts(world_size);
  RunRanks(world_size, "slice_elems=256; " + settings, [&](int rank, gwComm_t comm) {
    Trainer trainer(comm, rank, tensors);
    for (uint64_t step = 0; step < kSteps; ++step) {
      before(rank, step, &trainer);
      run.steps[rank].push_back(trainer.StepUntilCommitted(step, &aborts[rank]));
      ASSERT_EQ(run.steps[rank].back().outcome, gwStepCommitted);
      run.states[rank].push_back(SavedState(comm));
    }
  });
  for (int rank = 1; rank < world_size; ++rank) {
    EXPECT_EQ(aborts[rank].size(), aborts[0].size());
  }
  run.aborts = aborts[0];
  return run;
}

void ExpectSame(const TrainedJob& good, const TrainedJob& bad) {
  for (size_t rank = 0; rank < good.steps.size(); ++rank) {
    ASSERT_EQ(good.steps[rank].size(), bad.steps[rank].size());
    for (size_t step = 0; step < good.steps[rank].size(); ++step) {
      EXPECT_TRUE(SameBits(good.steps[rank][step].out, bad.steps[rank][step].out))
          << "rank " << rank << ", step " << step;
      EXPECT_EQ(good.states[rank][step], bad.states[rank][step])
          << "rank " << rank << ", step " << step;
    }
  }
}

TEST(Retry, OfAStepWithDamagedFramesGivesTheSameBits) {
  SCOPED_TRACE(TestSeedText());
  size_t aborts = 0;
  for (const int world_size : {2, 3, 4}) {
    const TrainedJob good = Train(world_size, "");
    for (uint64_t i = 0; i < 3; ++i) {
      const std::string seed = std::to_string(TestSeed() + i);
      SCOPED_TRACE(testing::Message() << world_size << " ranks, seed " << seed);
      const TrainedJob bad =
          Train(world_size, "transport=faulty(loopback,seed=" + seed +
                                ",corrupt=0.002,delay=0.1,late_sent=0.1,full=0.1)");
      ExpectSame(good, bad);
      aborts += bad.aborts.size();
    }
  }
  EXPECT_GT(aborts, 10u) << "the faults did not reach the steps";
}

// Of the whole run one fragment is damaged, at whatever place it has.
TEST(Retry, AfterOneDamagedFrameAnywhereGivesTheSameBits) {
  const TrainedJob good = Train(3, "");
  size_t aborts = 0;
  for (int at = 0; at < 400; at += 23) {
    SCOPED_TRACE(at);
    const TrainedJob bad =
        Train(3, "transport=faulty(loopback,corrupt_at=" + std::to_string(at) + ")");
    ExpectSame(good, bad);
    aborts += bad.aborts.size();
  }
  EXPECT_GT(aborts, 5u);
}

// A payload that passes every checksum and that no encoder writes: the decoder finds it, in a
// worker's contribution as in an owner's sum.
TEST(Retry, AfterADecodeErrorGivesTheSameBits) {
  for (const char* spec : {"qsgd(bits=4,feedback=on)", "qsgd(bits=8)", "efsign"}) {
    const std::vector<TrainedTensor> tensors = {{"a", spec, 3001}, {"b", spec, 300}};
    const TrainedJob good = Train(3, "", tensors);
    EXPECT_TRUE(good.aborts.empty());
    for (int at = 0; at < 200; at += 19) {
      SCOPED_TRACE(testing::Message() << spec << ", fragment " << at);
      const TrainedJob bad = Train(
          3, "transport=faulty(loopback,corrupt_sealed_at=" + std::to_string(at) + ")", tensors);
      ExpectSame(good, bad);
      EXPECT_FALSE(bad.aborts.empty());
      for (const std::string& text : bad.aborts) {
        EXPECT_NE(text.find("data corrupt: a payload is not what its codec writes"), text.npos)
            << text;
      }
    }
  }
}

// In each step another rank's tensor has another spec at first, then the same step is run again.
TEST(Retry, AfterAMismatchGivesTheSameBits) {
  constexpr int kRanks = 3;
  const TrainedJob good = Train(kRanks, "");
  const Before disagree = [](int rank, uint64_t step, Trainer* trainer) {
    const std::vector<TrainedTensor> tensors = SomeTensors();
    const size_t odd = step % tensors.size();
    const bool is_odd = rank == static_cast<int>(step) % kRanks;
    if (is_odd) {
      ASSERT_EQ(gwTensorSetSpec(trainer->handles()[odd], "qsgd(bits=6)"), gwSuccess);
    }
    const StepResult result = trainer->Step(step);
    EXPECT_EQ(result.outcome, gwStepAborted);
    EXPECT_NE(result.text.find("; spec: mine "), std::string::npos) << result.text;
    if (is_odd) {
      ASSERT_EQ(gwTensorSetSpec(trainer->handles()[odd], tensors[odd].spec.c_str()), gwSuccess);
    }
  };
  ExpectSame(good, Train(kRanks, "", SomeTensors(), disagree));
}

}  // namespace
}  // namespace gradwire
