#include "collectives/verify/verify.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "collectives/verify/world.h"
#include "tests/lib/sanitized.h"

namespace gradwire {
namespace {

TEST(VerifyTest, EveryAlgorithmAtEveryWorldSize) {
  constexpr int kLargest = kSanitized ? 33 : 65;
  for (const AlgorithmRow& row : Algorithms()) {
    for (int n = 1; n <= kLargest; ++n) {
      const bool rooted =
          row.collective == Collective::kReduce || row.collective == Collective::kBroadcast;
      const int roots = rooted && n <= 9 ? n : 1;
      for (int root = 0; root < roots; ++root) {
        const Status status = VerifyAll(row, n, root);
        ASSERT_TRUE(status.ok()) << status.ToString();
      }
    }
  }
}

// A right set of schedules, made wrong in one way each.
class BrokenTest : public testing::Test {
 protected:
  void Load(Collective collective, std::string_view name, int n, bool encoded = false) {
    const AlgorithmRow& row = **FindAlgorithm(collective, name, encoded);
    schedules_ = MakeAll(row, n);
    totals_ = row.totals(n);
    ASSERT_TRUE(VerifySchedules(schedules_, totals_).ok());
  }
  // The step must exist.
  Step& Find(int rank, StepKind kind, int nth = 0) {
    for (Step& step : schedules_[rank].steps) {
      if (step.kind == kind && nth-- == 0) return step;
    }
    ADD_FAILURE() << "rank " << rank << " has no such " << Name(kind);
    return schedules_[rank].steps.front();
  }
  void ExpectBroken(std::string_view invariant) {
    const Status status = VerifySchedules(schedules_, totals_);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.ToString().find(invariant), std::string::npos) << status.ToString();
  }
  std::vector<Schedule> schedules_;
  WireTotals totals_;
};

TEST_F(BrokenTest, DependenciesOfTheRingAreNeeded) {
  Load(Collective::kAllReduce, "ring", 4);
  const std::vector<Schedule> good = schedules_;
  int needed = 0;
  for (size_t i = 0; i < good[1].steps.size(); ++i) {
    for (uint32_t d = 0; d < good[1].steps[i].deps_count; ++d) {
      schedules_ = good;
      Schedule& broken = schedules_[1];
      Step& step = broken.steps[i];
      std::swap(broken.deps[step.deps_begin + d], broken.deps[step.deps_begin]);
      ++step.deps_begin;
      --step.deps_count;
      needed += !VerifySchedules(schedules_, totals_).ok();
    }
  }
  // Some dependencies follow from others; these do not.
  EXPECT_GE(needed, 8);
}

TEST_F(BrokenTest, DroppedDependency) {
  Load(Collective::kAllReduce, "two_shot", 4, /*encoded=*/true);
  Find(2, StepKind::kDecodeAdd).deps_count = 0;
  ExpectBroken("I1");
}

TEST_F(BrokenTest, InPlaceHazardThatApartMemoryHides) {
  Load(Collective::kAllReduce, "tree", 5);
  // A leaf of tree 0 receives the sum over the input it has sent.
  Find(4, StepKind::kRecv).deps_count = 0;
  ExpectBroken("I1");
}

TEST_F(BrokenTest, RepeatedMessageNumber) {
  Load(Collective::kAllReduce, "ring", 4);
  Find(1, StepKind::kSend, 1).message = Find(1, StepKind::kSend, 0).message;
  ExpectBroken("I2");
}

TEST_F(BrokenTest, SwappedPeer) {
  Load(Collective::kAllGather, "direct", 4);
  std::swap(Find(0, StepKind::kSend, 0).peer, Find(0, StepKind::kSend, 1).peer);
  // Both are sent the same shard, so only the order of the targets has changed.
  EXPECT_TRUE(VerifySchedules(schedules_, totals_).ok());
  Load(Collective::kAllReduce, "direct", 4);
  std::swap(Find(0, StepKind::kSend, 0).peer, Find(0, StepKind::kSend, 1).peer);
  ExpectBroken("I2");
}

TEST_F(BrokenTest, ReceiveThatNobodySends) {
  Load(Collective::kBroadcast, "tree", 4);
  Find(3, StepKind::kRecv).message = 9;
  ExpectBroken("I2");
}

TEST_F(BrokenTest, RoundsThatDiffer) {
  Load(Collective::kAllReduce, "recursive_doubling", 4);
  ++Find(2, StepKind::kSend, 1).round;
  ExpectBroken("I3");
}

TEST_F(BrokenTest, LocalStepInTheRoundOfItsMessage) {
  Load(Collective::kAllReduce, "two_shot", 3, /*encoded=*/true);
  Find(2, StepKind::kDecode).round = 0;
  ExpectBroken("I3");
}

TEST_F(BrokenTest, Circle) {
  // Two ranks that exchange one array in place: neither may receive before it has sent.
  schedules_.clear();
  for (int rank = 0; rank < 2; ++rank) {
    ScheduleBuilder builder(Collective::kAllReduce, rank, 2, 0, 1);
    const uint8_t input = builder.AddBuffer(BufferRole::kInput, {0});
    const uint8_t output = builder.AddBuffer(BufferRole::kOutput, {0});
    builder.Send(1 - rank, 0, 0, {input, 0, 1});
    builder.RecvReduce(1 - rank, 0, 0, {input, 0, 1}, {output, 0, 1});
    schedules_.push_back(std::move(builder).Build("exchange"));
  }
  totals_ = {.messages = 2, .shards = 2};
  ExpectBroken("I4");
}

TEST_F(BrokenTest, ContributionTwice) {
  Load(Collective::kAllReduce, "ring", 4);
  // Adds its own shard to what is complete already.
  Step& recv = Find(1, StepKind::kRecv);
  recv.kind = StepKind::kRecvReduce;
  recv.arg = Find(1, StepKind::kRecvReduce).arg;
  recv.arg.first = recv.dst.first;
  ExpectBroken("I5");
}

TEST_F(BrokenTest, DecodeThatForgetsTheSum) {
  Load(Collective::kAllReduce, "two_shot", 4, /*encoded=*/true);
  Find(3, StepKind::kDecodeAdd).kind = StepKind::kDecode;
  ExpectBroken("I5");
}

TEST_F(BrokenTest, WritesTheInput) {
  Load(Collective::kAllReduce, "two_shot", 4, /*encoded=*/true);
  Find(3, StepKind::kDecode, 1).dst.buffer = 0;
  ExpectBroken("I5");
}

TEST_F(BrokenTest, WrongTotals) {
  Load(Collective::kBarrier, "dissemination", 5);
  ++totals_.messages;
  ExpectBroken("I6");
}

TEST_F(BrokenTest, BarrierThatPassesOnWhatItHasNotHeard) {
  Load(Collective::kBarrier, "dissemination", 5);
  for (Schedule& schedule : schedules_) {
    for (Step& step : schedule.steps) step.deps_count = 0;
  }
  ExpectBroken("I5: rank 0 may leave the barrier");
}

TEST_F(BrokenTest, BroadcastWithoutAnnouncement) {
  Load(Collective::kBroadcast, "tree", 4);
  for (Schedule& schedule : schedules_) {
    // Bare headers only; nothing depends on them.
    Schedule without = schedule;
    without.steps.clear();
    without.deps.clear();
    std::vector<int32_t> moved(schedule.steps.size(), -1);
    for (size_t i = 0; i < schedule.steps.size(); ++i) {
      Step step = schedule.steps[i];
      const bool bare = step.src.count == 0 && step.dst.count == 0;
      if (bare) continue;
      moved[i] = static_cast<int32_t>(without.steps.size());
      const std::span<const int32_t> deps = schedule.DepsOf(step);
      step.deps_begin = static_cast<uint32_t>(without.deps.size());
      for (int32_t dep : deps) without.deps.push_back(moved[dep]);
      without.steps.push_back(step);
    }
    schedule = without;
  }
  totals_.messages -= 3;
  ExpectBroken("I8");
}

TEST_F(BrokenTest, DifferentAlgorithms) {
  Load(Collective::kAllReduce, "ring", 2);
  schedules_[1] = (*FindAlgorithm(Collective::kAllReduce, "direct"))->make(1, 2, 0);
  ExpectBroken("do not run the same thing");
}

}  // namespace
}  // namespace gradwire
