// Ranks and transports without which a step does not end, in virtual time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "collectives/schedule.h"
#include "runtime/sim/late_ranks.h"
#include "runtime/sim/sim_job.h"
#include "tests/lib/log_lines.h"

namespace gradwire {
namespace {

using testing::HasSubstr;

class LateVoters : public LateRanks {
 protected:
  LateVoters() : LateRanks(kOpTimeoutNs) {}
};

TEST_F(LateVoters, WhoKeepsTheOthersFromEndingAStepIsNamed) {
  constexpr uint16_t kTries = 2;
  for (uint16_t turn = 0; turn < kTries; ++turn) {
    const int64_t begin_ns = job_.now_ns();
    EndStep(0);
    EndStep(2);
    ASSERT_TRUE(RunUntilTurn(turn + 1));
    EXPECT_GT(job_.now_ns() - begin_ns, kOpTimeoutNs);
    EXPECT_LT(job_.now_ns() - begin_ns, 2 * kOpTimeoutNs);
    for (int rank = 0; rank < kRanks; ++rank) {
      const TurnResult& result = job_[rank].results()[turn];
      EXPECT_EQ(result.outcome, StepOutcome::kAbort) << rank;
      EXPECT_EQ(result.reason.code(), gwTimeout) << rank;
      EXPECT_EQ(result.reason.detail().peer, 1) << rank;
      EXPECT_THAT(result.reason.ToString(), HasSubstr("rank 1 has not ended the step")) << rank;
    }
  }
  for (int rank = 0; rank < kRanks; ++rank) EndStep(rank);
  ASSERT_TRUE(RunUntilTurn(kTries + 1));
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(job_[rank].results()[kTries].outcome, StepOutcome::kCommit) << rank;
  }
}

// Rank 0 alone can end a step: where its engine stands still, nobody else times the others out.
TEST_F(LateVoters, RankZeroIsNamedWhoseEngineStandsStill) {
  for (int rank = 0; rank < kRanks; ++rank) EndStep(rank);
  ASSERT_TRUE(RunUntilTurn(1));
  job_.StopEngine(0);
  EndStep(1);
  EndStep(2);
  const int64_t begin_ns = job_.now_ns();
  for (int rank = 1; rank < kRanks; ++rank) {
    ASSERT_TRUE(RunUntilFatal(rank));
    const Status& fatal = job_[rank].fatal();
    EXPECT_EQ(fatal.code(), gwTimeout) << rank;
    EXPECT_EQ(fatal.detail().peer, 0) << rank;
    EXPECT_THAT(fatal.ToString(), HasSubstr("rank 0 has not moved for")) << rank;
  }
  EXPECT_GT(job_.now_ns() - begin_ns, kOpTimeoutNs);
  EXPECT_LT(job_.now_ns() - begin_ns, 2 * kOpTimeoutNs);
}

TEST_F(LateVoters, RankZeroIsGivenUpAlsoByWhoRevokedTheStep) {
  job_.StopEngine(0);
  job_[1].core().RevokeStep(0, Status(gwAborted, "rank 1 gave the step up"));
  ASSERT_TRUE(RunUntilFatal(1));
  EXPECT_EQ(job_[1].fatal().detail().peer, 0);
}

// As a suspended machine, or Ctrl-Z.
class StoppedJob : public LateVoters {
 protected:
  static constexpr int64_t kPauseNs = 100 * kOpTimeoutNs;

  // While something is waited for: most of the time for it is left when the pause begins, and as
  // much of it is used up when this returns.
  bool StandStill() {
    if (!RunFor(kOpTimeoutNs / 10)) return false;
    for (int rank = 0; rank < kRanks; ++rank) job_.clock(rank).Work(kPauseNs);
    return RunFor(kPauseNs + kOpTimeoutNs * 9 / 10);
  }
  bool RunFor(int64_t ns) { return RunUntilNs(job_.now_ns() + ns); }
  bool RunUntilAll(const std::function<bool(int rank)>& done) {
    return job_.RunUntil([&] { return done(0) && done(1) && done(2); }, job_.now_ns() + kBoundNs);
  }
  void ExpectNothingHappened() {
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_TRUE(job_[rank].fatal().ok()) << job_[rank].fatal().ToString();
      EXPECT_EQ(job_[rank].turn(), 0) << rank;
    }
  }

 private:
  bool RunUntilNs(int64_t until_ns) {
    return job_.RunUntil([&] { return job_.now_ns() >= until_ns; }, until_ns + kBoundNs);
  }
};

TEST_F(StoppedJob, EndsAStepForWhichOneIsLateAfterIt) {
  for (int rank = 1; rank < kRanks; ++rank) EndStep(rank);
  ASSERT_TRUE(StandStill());
  ExpectNothingHappened();
  EndStep(0);
  ASSERT_TRUE(RunUntilAll([&](int rank) { return job_[rank].turn() == 1; }));
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(job_[rank].results()[0].outcome, StepOutcome::kCommit) << rank;
}

TEST_F(StoppedJob, CompletesAnOperationForWhichOneIsLateAfterIt) {
  std::vector<std::shared_ptr<Operation>> operations = {Submit(0, Collective::kAllReduce),
                                                        Submit(1, Collective::kAllReduce)};
  ASSERT_TRUE(StandStill());
  ExpectNothingHappened();
  operations.push_back(Submit(2, Collective::kAllReduce));
  ASSERT_TRUE(RunUntilAll([&](int rank) { return operations[rank]->done.load(); }));
  for (const auto& operation : operations)
    EXPECT_TRUE(operation->status.ok()) << operation->status.ToString();
  EXPECT_EQ(sums_[2], 6.0f);
}

TEST_F(StoppedJob, MovesAMessageForWhichOneIsLateAfterIt) {
  const auto recv = Post(2, Transfer::Kind::kRecv, 1);
  ASSERT_TRUE(StandStill());
  ExpectNothingHappened();
  EXPECT_FALSE(recv->done.load());
  const auto send = Post(1, Transfer::Kind::kSend, 2);
  ASSERT_TRUE(RunUntilAll([&](int) { return recv->done.load() && send->done.load(); }));
  EXPECT_TRUE(recv->status.ok()) << recv->status.ToString();
  EXPECT_EQ(sums_[2], values_[1]);
}

// A pause gives nobody more than its time.
TEST_F(StoppedJob, StillEndsForWhoDoesNotCome) {
  for (int rank : {0, 2}) EndStep(rank);
  ASSERT_TRUE(StandStill());
  ExpectNothingHappened();
  ASSERT_TRUE(RunFor(kOpTimeoutNs / 2));
  ASSERT_EQ(job_[0].turn(), 1);
  EXPECT_EQ(job_[0].results()[0].reason.detail().peer, 1);
}

// Shorter than what signs of life may take, longer than an operation may.
TEST(ShortlyStoppedJob, EndsAStepForWhichOneIsLateAfterIt) {
  constexpr int64_t kPauseNs = 2 * kOpTimeoutNs;
  SimJob job({.world_size = kRanks,
              .op_timeout_ns = kOpTimeoutNs,
              .liveness = {.period_ns = 5 * kNsPerMs, .bound_ns = 10 * kPauseNs}});
  const auto run_for = [&](int64_t ns) {
    const int64_t until_ns = job.now_ns() + ns;
    return job.RunUntil([&] { return job.now_ns() >= until_ns; }, until_ns + kBoundNs);
  };
  const StepContext step = {.number = 1};
  for (int rank = 1; rank < kRanks; ++rank) job[rank].EndStep(step);
  ASSERT_TRUE(run_for(kOpTimeoutNs / 10));
  for (int rank = 0; rank < kRanks; ++rank) job.clock(rank).Work(kPauseNs);
  ASSERT_TRUE(run_for(kPauseNs + kOpTimeoutNs / 2));
  EXPECT_EQ(job[1].turn(), 0);
  job[0].EndStep(step);
  ASSERT_TRUE(job.RunUntil([&] { return job[1].turn() == 1; }, job.now_ns() + kBoundNs));
  EXPECT_EQ(job[1].results()[0].outcome, StepOutcome::kCommit);
}

TEST_F(LateVoters, WhoAloneStandsStillIsGivenUpByTheOthers) {
  for (int rank : {0, 2}) EndStep(rank);
  job_.Stop(1);
  for (int rank : {0, 2}) {
    ASSERT_TRUE(RunUntilFatal(rank));
    EXPECT_EQ(job_[rank].fatal().code(), gwPeerLost) << rank;
    EXPECT_EQ(job_[rank].fatal().detail().peer, 1) << rank;
  }
  EXPECT_LT(job_.now_ns(), kOpTimeoutNs);
}

// However long the others take: rank 0 ends the step for them.
TEST_F(LateVoters, RankZeroIsAliveWhileItWaitsForOthers) {
  for (int rank = 1; rank < kRanks; ++rank) {
    EndStep(rank);
    const int64_t until_ns = job_.now_ns() + kOpTimeoutNs * 9 / 10;
    ASSERT_TRUE(RunUntil([&] { return job_.now_ns() >= until_ns; }));
  }
  EndStep(0);
  ASSERT_TRUE(RunUntilTurn(1));
  EXPECT_EQ(job_[1].results()[0].outcome, StepOutcome::kCommit);
}

// The transport never says that it has let go of what was sent from.
TEST(LateTransport, IsToldOfWhereAnAbortedStepEndsWithoutIt) {
  const LogLines lines;
  SimJob job({.world_size = kRanks,
              .loopback = true,
              .faults = FaultPlan{.delay_polls = 1'000'000'000, .late_sent = 1}});
  std::array<float, kRanks> values = {};
  std::vector<std::shared_ptr<Operation>> operations;
  for (int rank = 0; rank < kRanks; ++rank) {
    auto* const value = reinterpret_cast<std::byte*>(&values[rank]);
    const RawOp op = {
        .collective = Collective::kAllReduce, .send = value, .recv = value, .count = 1};
    const AlgorithmRow& row = **ChooseAlgorithm(
        {.collective = op.collective, .world_size = kRanks, .bytes = sizeof(float)});
    operations.push_back(job[rank].SubmitRaw(op, row, 0));
    job[rank].Poll();
  }
  job[0].core().RevokeStep(0, Status(gwAborted, "rank 0 gave the step up"));
  EXPECT_TRUE(job.RunUntil(
      [&] { return std::ranges::all_of(operations, [](const auto& o) { return o->done.load(); }); },
      kBoundNs));
  EXPECT_THAT(lines.all(), testing::Not(testing::IsEmpty()));
  EXPECT_THAT(lines.all(), testing::Each(HasSubstr("has not let go of memory in time")));
}

// A leaf of the one tree waits for its root, which in the other waits for the leaf: no frame of
// theirs meets. The parameter: how often ranks give signs of life.
class RanksOfDifferentOperations : public testing::TestWithParam<int64_t> {};

TEST_P(RanksOfDifferentOperations, ThatAwaitEachOtherHearOfIt) {
  const int64_t period_ns = GetParam();
  // By signs of life, or long before one is due.
  const int64_t bound_ns = std::min(2 * period_ns, kNsPerSecond);
  SimJob job(
      {.world_size = kRanks, .liveness = {.period_ns = period_ns, .bound_ns = 5 * period_ns}});
  std::array<float, 2 * kRanks> values = {};
  for (int rank = 0; rank < kRanks; ++rank) {
    const bool is_odd = rank == 1;
    auto* const value = reinterpret_cast<std::byte*>(&values[2 * rank]);
    const RawOp op = {.collective = Collective::kAllReduce,
                      .send = value,
                      .recv = value,
                      .count = is_odd ? 2 : 1};
    job[rank].SubmitRaw(
        op, **FindAlgorithm(op.collective, is_odd ? "recursive_doubling" : "knomial"), 0);
  }
  const auto ended = [&](int rank) { return job[rank].results().size() == 1; };
  const SimJob::Callers clock = {.next_ns = [&] { return job.now_ns() + kNsPerMs; }};
  ASSERT_TRUE(job.RunUntil([&] { return ended(0) && ended(1) && ended(2); }, bound_ns, clock));
  for (int rank = 0; rank < kRanks; ++rank) {
    const TurnResult& result = job[rank].results()[0];
    EXPECT_EQ(result.reason.code(), gwMismatch) << rank;
    EXPECT_THAT(result.reason.ToString(), HasSubstr("count: 1 (rank 0, 2), 2 (rank 1)"));
  }
}

INSTANTIATE_TEST_SUITE_P(SignsOfLife, RanksOfDifferentOperations,
                         testing::Values(20 * kNsPerMs, 20 * kNsPerSecond));

class StuckVoters : public LateRanks {
 protected:
  // So short that the time for an abort is over before a silent rank counts as lost.
  StuckVoters() : LateRanks(10 * kNsPerMs) {}
};

// It counts as alive, but its engine does nothing: the step cannot even be aborted.
TEST_F(StuckVoters, WhoseVoteOnAnAbortedStepIsMissingIsNamed) {
  constexpr int64_t kStuckNs = 10 * kNsPerSecond;
  job_.clock(1).Work(kStuckNs);
  for (int rank : {0, 2}) Submit(rank, Collective::kAllReduce);
  // Time passes though what has come for rank 1 is not taken.
  const SimJob::Callers clock = {.next_ns = [this] { return job_.now_ns() + kNsPerMs; }};
  for (int rank : {0, 2}) {
    ASSERT_TRUE(job_.RunUntil([&, rank] { return !job_[rank].fatal().ok(); }, kBoundNs, clock));
    const Status& fatal = job_[rank].fatal();
    EXPECT_EQ(fatal.code(), gwTimeout) << fatal.ToString();
    EXPECT_EQ(fatal.detail().peer, 1) << rank;
    EXPECT_THAT(fatal.ToString(), HasSubstr("vote of rank 1 on an aborted step")) << rank;
  }
  EXPECT_LT(job_.now_ns(), kStuckNs);
}

}  // namespace
}  // namespace gradwire
