// Damaged frames, payloads and ranks that disagree abort a step on all ranks, and the same step run
// again gives the bits of a run that never failed.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/integration/steps/retried_training.h"
#include "tests/integration/steps/trainer.h"
#include "tests/lib/capi_ranks.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

using TrainedJob = std::vector<TrainedRank>;  // by rank

// What each rank does before a step.
using BeforeOf = std::function<BeforeStep(int rank)>;

TrainedJob Train(
    int world_size, const std::string& settings,
    const std::vector<TrainedTensor>& tensors = SomeTensors(),
    const BeforeOf& before = [](int) { return BeforeStep(); }) {
  TrainedJob job(world_size);
  RunRanks(world_size, "slice_elems=256; " + settings, [&](int rank, gwComm_t comm) {
    job[rank] = TrainRank(comm, rank, tensors, before(rank));
    ASSERT_EQ(job[rank].steps.back().outcome, gwStepCommitted);
  });
  for (int rank = 1; rank < world_size; ++rank) {
    EXPECT_EQ(job[rank].aborts.size(), job[0].aborts.size());
  }
  return job;
}

void ExpectSame(const TrainedJob& good, const TrainedJob& bad) {
  for (size_t rank = 0; rank < good.size(); ++rank) {
    SCOPED_TRACE(testing::Message() << "rank " << rank);
    ExpectSameBits(good[rank], bad[rank]);
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
      aborts += bad[0].aborts.size();
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
    aborts += bad[0].aborts.size();
  }
  EXPECT_GT(aborts, 5u);
}

// A payload that passes every checksum and that no encoder writes: the decoder finds it, in a
// worker's contribution as in an owner's sum.
TEST(Retry, AfterADecodeErrorGivesTheSameBits) {
  for (const char* spec : {"qsgd(bits=4,feedback=on)", "qsgd(bits=8)", "efsign"}) {
    const std::vector<TrainedTensor> tensors = {{"a", spec, 3001}, {"b", spec, 300}};
    const TrainedJob good = Train(3, "", tensors);
    EXPECT_TRUE(good[0].aborts.empty());
    for (int at = 0; at < 200; at += 19) {
      SCOPED_TRACE(testing::Message() << spec << ", fragment " << at);
      const TrainedJob bad = Train(
          3, "transport=faulty(loopback,corrupt_sealed_at=" + std::to_string(at) + ")", tensors);
      ExpectSame(good, bad);
      EXPECT_FALSE(bad[0].aborts.empty());
      for (const std::string& text : bad[0].aborts) {
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
  ExpectSame(good, Train(kRanks, "", SomeTensors(),
                         [](int rank) { return DisagreeAtFirst(rank, kRanks); }));
}

// In each step another rank gives it up at first, though all that it submitted has come out well.
TEST(Retry, AfterARankGaveUpGivesTheSameBits) {
  constexpr int kRanks = 3;
  const TrainedJob good = Train(kRanks, "");
  const auto give_up = [](int rank) {
    return [rank](uint64_t step, Trainer* trainer) {
      const int who = static_cast<int>(step) % kRanks;
      trainer->gives_up = rank == who;
      const StepResult result = trainer->Step(step);
      trainer->gives_up = false;
      EXPECT_EQ(result.outcome, gwStepAborted);
      const std::string told = "rank " + std::to_string(who) + " gave the step up: out of memory";
      EXPECT_EQ(result.text.find(told) != std::string::npos, rank != who) << result.text;
    };
  };
  ExpectSame(good, Train(kRanks, "", SomeTensors(), give_up));
}

}  // namespace
}  // namespace gradwire
