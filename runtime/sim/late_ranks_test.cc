// Ranks and transports that come late, and ranks that leave while others still work, in virtual
// time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "collectives/schedule.h"
#include "runtime/sim/sim_job.h"
#include "tests/lib/log_lines.h"

namespace gradwire {
namespace {

using testing::HasSubstr;

constexpr int kRanks = 3;
constexpr int64_t kOpTimeoutNs = 300 * kNsPerMs;
// More than what a rank that left is given to deliver its last words.
constexpr int64_t kLateNs = 1500 * kNsPerMs;
constexpr int64_t kBoundNs = 30 * kNsPerSecond;

// One float a rank: rank r gives r + 1.
class LateRanks : public testing::Test {
 protected:
  explicit LateRanks(int64_t op_timeout_ns = 0)
      : LateRanks(JobOptions{.world_size = kRanks, .op_timeout_ns = op_timeout_ns}) {}
  explicit LateRanks(const JobOptions& options) : job_(options) {}

  std::shared_ptr<Operation> Submit(int rank, Collective collective, int root = 0) {
    const RawOp op = {.collective = collective,
                      .send = reinterpret_cast<const std::byte*>(&values_[rank]),
                      .recv = reinterpret_cast<std::byte*>(&sums_[rank]),
                      .count = 1,
                      .root = root};
    return job_[rank].SubmitRaw(
        op,
        **ChooseAlgorithm({.collective = collective, .world_size = kRanks, .bytes = sizeof(float)}),
        job_[rank].turn());
  }

  // One float to or from `peer`.
  std::shared_ptr<Transfer> Post(int rank, Transfer::Kind kind, int peer) {
    auto transfer = std::make_shared<Transfer>();
    transfer->kind = kind;
    transfer->peer = peer;
    const bool is_send = kind == Transfer::Kind::kSend;
    transfer->memory = reinterpret_cast<std::byte*>(is_send ? &values_[rank] : &sums_[rank]);
    transfer->count = 1;
    transfer->dtype = DType::kFloat32;
    job_[rank].core().Post(transfer);
    return transfer;
  }

  void EndStep(int rank) { job_[rank].EndStep({.number = 1, .turn = job_[rank].turn()}); }

  bool RunUntil(const std::function<bool()>& done) { return job_.RunUntil(done, kBoundNs); }
  bool RunUntilDone(const Operation& operation) {
    return RunUntil([&] { return operation.done.load(); });
  }
  bool RunUntilTurn(uint16_t turn) {
    return RunUntil(
        [&] { return job_[0].turn() == turn && job_[1].turn() == turn && job_[2].turn() == turn; });
  }
  bool RunUntilFatal(int rank) {
    return RunUntil([&, rank] { return !job_[rank].fatal().ok(); });
  }
  bool BeLate() {
    return RunUntil([this, late_ns = job_.now_ns() + kLateNs] { return job_.now_ns() >= late_ns; });
  }
  bool Leave(int rank) {
    job_.SayBye(rank);
    const bool may = RunUntil([&, rank] { return job_.MayLeave(rank); });
    job_.Kill(rank);
    return may;
  }

  void ExpectMisses(int rank, int gone) {
    const Status& fatal = job_[rank].fatal();
    EXPECT_EQ(fatal.code(), gwPeerLost) << rank;
    EXPECT_EQ(fatal.detail().peer, gone) << rank;
    EXPECT_THAT(fatal.ToString(), HasSubstr("rank " + std::to_string(gone) + " has left")) << rank;
  }

  std::array<float, kRanks> values_ = {1, 2, 3}, sums_ = {};
  SimJob job_;
};

TEST_F(LateRanks, WhoHasLeftIsNotMissedWhereItDidItsPart) {
  const auto root = Submit(0, Collective::kReduce);
  ASSERT_TRUE(RunUntilDone(*Submit(2, Collective::kReduce)));
  ASSERT_TRUE(Leave(2));
  ASSERT_TRUE(BeLate());
  EXPECT_FALSE(root->done.load());
  const auto late = Submit(1, Collective::kReduce);
  ASSERT_TRUE(RunUntilDone(*late));
  ASSERT_TRUE(RunUntilDone(*root));
  EXPECT_TRUE(late->status.ok()) << late->status.ToString();
  EXPECT_TRUE(root->status.ok()) << root->status.ToString();
  EXPECT_EQ(sums_[0], 6.0f);
  EXPECT_TRUE(Leave(1));
  EXPECT_TRUE(Leave(0));
}

TEST_F(LateRanks, WhoHasLeftIsNamedByWhomItsPartIsMissing) {
  ASSERT_TRUE(Leave(2));
  const std::array operations = {Submit(0, Collective::kAllReduce),
                                 Submit(1, Collective::kAllReduce)};
  for (int rank : {0, 1}) {
    ASSERT_TRUE(RunUntilFatal(rank));
    ExpectMisses(rank, 2);
    EXPECT_EQ(operations[rank]->status.code(), gwPeerLost) << rank;
  }
}

TEST_F(LateRanks, WhoHasLeftIsNamedWhereItsVoteIsMissing) {
  ASSERT_TRUE(Leave(2));
  EndStep(0);
  EndStep(1);
  ASSERT_TRUE(RunUntilFatal(0));
  ExpectMisses(0, 2);
}

TEST_F(LateRanks, Rank0IsMissedByAllThatEndAStep) {
  job_.SayBye(0);
  ASSERT_TRUE(BeLate());
  for (int rank : {1, 2}) {
    EXPECT_TRUE(job_[rank].fatal().ok()) << "nothing is needed of rank 0 yet";
    EndStep(rank);
  }
  for (int rank : {1, 2}) {
    ASSERT_TRUE(RunUntilFatal(rank));
    ExpectMisses(rank, 0);
  }
}

// Nothing was begun here, but without the result of an abort that was heard this rank could not
// leave.
TEST_F(LateRanks, Rank0IsMissedByWhoWaitsForTheEndOfAnAbort) {
  job_.SayBye(0);
  ASSERT_TRUE(BeLate());
  job_[0].core().RevokeStep(0, Status(gwAborted, "a rank gave the step up"));
  job_.Kill(0);
  const int64_t begin_ns = job_.now_ns();
  for (int rank : {1, 2}) {
    ASSERT_TRUE(RunUntilFatal(rank)) << rank;
    ExpectMisses(rank, 0);
    EXPECT_THAT(job_[rank].fatal().ToString(), HasSubstr("amid an abort: a rank gave the step up"));
  }
  EXPECT_GT(job_.now_ns() - begin_ns, kNsPerSecond) << "the result may be on its way";
}

// Rank 1 had all it needed, and has left.
class RanksThatDisagree : public LateRanks, public testing::WithParamInterface<Collective> {
 protected:
  void ExpectTold(int rank, gwResult_t code) {
    EXPECT_TRUE(job_[rank].fatal().ok()) << job_[rank].fatal().ToString();
    ASSERT_EQ(job_[rank].turn(), 1) << rank;
    EXPECT_EQ(job_[rank].results()[0].reason.code(), code) << rank;
  }
  bool RunUntilBothKnow() {
    return RunUntil([&] { return job_[0].turn() == 1 && job_[2].turn() == 1; });
  }
};

TEST_P(RanksThatDisagree, HearOfItThoughOthersHaveLeft) {
  const auto root = Submit(0, GetParam());
  ASSERT_TRUE(RunUntilDone(*Submit(1, GetParam())));
  ASSERT_TRUE(Leave(1));
  job_.SayBye(0);
  ASSERT_TRUE(BeLate());
  const int64_t begin_ns = job_.now_ns();
  auto* const odd = reinterpret_cast<std::byte*>(&values_[2]);
  const AlgorithmRow* const row =
      *ChooseAlgorithm({.collective = GetParam(), .world_size = kRanks, .bytes = sizeof(float)});
  job_[2].SubmitRaw(
      {.collective = GetParam(), .send = odd, .recv = odd, .count = 1, .dtype = DType::kInt32},
      *row, 0);
  ASSERT_TRUE(RunUntilBothKnow());
  EXPECT_LT(job_.now_ns() - begin_ns, kNsPerSecond);
  for (int rank : {0, 2}) {
    ExpectTold(rank, gwMismatch);
    const ErrorDetail& told = job_[rank].results()[0].reason.detail();
    EXPECT_EQ(told.field, "datatype");
    EXPECT_EQ(told.expected, "float (rank 0)");
    EXPECT_EQ(told.actual, "int32 (rank 2)");
  }
}

TEST_P(RanksThatDisagree, AreToldOfDamageAsSuch) {
  Submit(0, GetParam());
  ASSERT_TRUE(RunUntilDone(*Submit(1, GetParam())));
  ASSERT_TRUE(Leave(1));
  ASSERT_TRUE(BeLate());
  job_[2].core().RevokeStep(0, Status(gwDataCorrupt, "a frame is damaged"));
  ASSERT_TRUE(RunUntilBothKnow());
  for (int rank : {0, 2}) ExpectTold(rank, gwDataCorrupt);
}

INSTANTIATE_TEST_SUITE_P(Rooted, RanksThatDisagree,
                         testing::Values(Collective::kBroadcast, Collective::kReduce));

// It did its part, but nobody would hear of rank 2 if that were lost.
TEST_F(LateRanks, Rank0IsMissedByWhoWaitsForAnother) {
  const auto root = Submit(1, Collective::kReduce, 1);
  ASSERT_TRUE(RunUntilDone(*Submit(0, Collective::kReduce, 1)));
  job_.SayBye(0);
  ASSERT_TRUE(RunUntilFatal(1));
  ExpectMisses(1, 0);
  EXPECT_EQ(root->status.code(), gwPeerLost);
}

// A transport that tells of no death, as shared memory.
class LateRanksUnseen : public LateRanks {
 protected:
  LateRanksUnseen() : LateRanks({.world_size = kRanks, .network = {.detect_ns = -1}}) {}
};

TEST_F(LateRanksUnseen, Rank0IsMissedByWhoWaitsForAMessage) {
  const auto message = Post(1, Transfer::Kind::kRecv, 2);
  job_.SayBye(0);
  ASSERT_TRUE(BeLate());
  job_.Kill(0);
  job_.Kill(2);
  // Nothing else happens any more.
  const SimJob::Callers clock = {.next_ns = [this] { return job_.now_ns() + kNsPerMs; }};
  ASSERT_TRUE(job_.RunUntil([&] { return message->done.load(); }, kBoundNs, clock));
  EXPECT_EQ(message->status.code(), gwPeerLost);
  EXPECT_THAT(message->status.ToString(), HasSubstr("rank 0 has left"));
}

// The parameter: who leaves. Rank 0 hears it before and after whom it is accused by.
class RanksWithoutRank0 : public LateRanks, public testing::WithParamInterface<int> {
 protected:
  RanksWithoutRank0()
      : LateRanks({.world_size = kRanks,
                   .liveness = {.period_ns = kNsPerSecond, .bound_ns = 10 * kNsPerSecond}}) {}
  // Though what has come for a rank that stands still is not taken.
  bool RunFor(int64_t ns) {
    const SimJob::Callers clock = {.next_ns = [this] { return job_.now_ns() + kNsPerMs; }};
    return job_.RunUntil([&, until_ns = job_.now_ns() + ns] { return job_.now_ns() >= until_ns; },
                         kBoundNs, clock);
  }
};

TEST_P(RanksWithoutRank0, WhoseByeWaitsThereIsNotLost) {
  const int leaver = GetParam(), stays = 3 - leaver;
  const auto root = Submit(stays, Collective::kReduce, stays);
  ASSERT_TRUE(RunUntilDone(*Submit(leaver, Collective::kReduce, stays)));
  job_.Stop(0);
  job_.SayBye(leaver);
  job_.Kill(leaver);
  ASSERT_TRUE(RunFor(3 * kNsPerSecond));
  EXPECT_TRUE(job_[stays].fatal().ok()) << job_[stays].fatal().ToString();
  job_.Continue(0);
  ASSERT_TRUE(RunUntilDone(*Submit(0, Collective::kReduce, stays)));
  ASSERT_TRUE(RunUntilDone(*root));
  EXPECT_TRUE(root->status.ok()) << root->status.ToString();
  EXPECT_EQ(sums_[stays], 6.0f);
}

TEST_P(RanksWithoutRank0, WhoIsGoneIsNamedWhereNobodyJudges) {
  const int gone = GetParam(), stays = 3 - gone;
  Submit(stays, Collective::kReduce, stays);
  ASSERT_TRUE(RunUntilDone(*Submit(0, Collective::kReduce, stays)));
  job_.SayBye(0);
  ASSERT_TRUE(RunFor(kNsPerSecond));
  job_.Kill(0);
  job_.Kill(gone);
  ASSERT_TRUE(RunFor(kNsPerSecond));
  EXPECT_EQ(job_[stays].fatal().code(), gwPeerLost);
  EXPECT_EQ(job_[stays].fatal().detail().peer, gone) << job_[stays].fatal().ToString();
}

INSTANTIATE_TEST_SUITE_P(Leavers, RanksWithoutRank0, testing::Values(1, 2));

// What rank 1 has sent stands still in the network for longer than kLeftNs, and rank 1 has left.
class StalledRanks : public LateRanks {
 protected:
  static constexpr int64_t kSilenceNs = 10 * kNsPerSecond;
  StalledRanks()
      : LateRanks({.world_size = kRanks,
                   .liveness = {.period_ns = kNsPerSecond, .bound_ns = kSilenceNs}}) {}
  void LeaveAndStall() {
    job_.network().CutAt(1, 2, job_.now_ns());
    job_.SayBye(1);
    job_.network().HealAt(1, 2, job_.now_ns() + 2 * kNsPerSecond);
  }
};

TEST_F(StalledRanks, WhoHasLeftIsNotMissedWhileItsDataMayCome) {
  const auto root = Submit(2, Collective::kReduce, 2);
  ASSERT_TRUE(RunUntilDone(*Submit(0, Collective::kReduce, 2)));
  ASSERT_TRUE(RunUntilDone(*Submit(1, Collective::kReduce, 2)));
  ASSERT_FALSE(root->done.load());
  LeaveAndStall();
  ASSERT_TRUE(RunUntilDone(*root));
  EXPECT_TRUE(root->status.ok()) << root->status.ToString();
  EXPECT_EQ(sums_[2], 6.0f);
}

TEST_F(StalledRanks, ItsMessageIsAwaitedToo) {
  const auto recv = Post(2, Transfer::Kind::kRecv, 1), send = Post(1, Transfer::Kind::kSend, 2);
  ASSERT_TRUE(RunUntil([&] { return send->done.load(); }));
  ASSERT_FALSE(recv->done.load());
  LeaveAndStall();
  ASSERT_TRUE(RunUntil([&] { return recv->done.load(); }));
  EXPECT_TRUE(recv->status.ok()) << recv->status.ToString();
  EXPECT_EQ(sums_[2], values_[1]);
}

TEST_F(StalledRanks, WhoseConnectionHasEndedIsMissedAtOnce) {
  ASSERT_TRUE(Leave(1));
  Submit(0, Collective::kAllReduce), Submit(2, Collective::kAllReduce);
  ASSERT_TRUE(RunUntilFatal(2));
  ExpectMisses(2, 1);
  EXPECT_LT(job_.now_ns(), kSilenceNs / 2);
}

TEST_F(StalledRanks, WhoseDataDoNotComeIsMissedInTheEnd) {
  job_.SayBye(1);
  Submit(0, Collective::kAllReduce), Submit(2, Collective::kAllReduce);
  ASSERT_TRUE(RunUntilFatal(2));
  ExpectMisses(2, 1);
  EXPECT_GE(job_.now_ns(), kSilenceNs);
}

// The time for an orderly end is up, and nobody polls any more.
TEST_F(LateRanks, ClosingCompletesWhatTheOthersDoNotMeet) {
  const auto begun = Submit(1, Collective::kAllReduce);
  job_[1].Poll();
  const auto waiting = Submit(1, Collective::kAllReduce);
  job_[1].core().Close(Status(gwAborted, "closed"));
  for (const auto& operation : {begun, waiting}) {
    EXPECT_TRUE(operation->done.load());
    EXPECT_EQ(operation->status.code(), gwAborted) << operation->status.ToString();
  }
  EXPECT_EQ(job_[1].fatal().code(), gwAborted);
}

TEST_F(LateRanks, ClosingWhatIsAtRestIsNoFailure) {
  job_[1].core().Close(Status(gwAborted, "closed"));
  EXPECT_TRUE(job_[1].fatal().ok()) << job_[1].fatal().ToString();
}

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
TEST_F(LateVoters, NobodyIsGivenUpAfterAllHaveStoodStill) {
  constexpr int64_t kPauseNs = 100 * kOpTimeoutNs;
  for (int rank = 1; rank < kRanks; ++rank) EndStep(rank);
  const int64_t until_ns = job_.now_ns() + kOpTimeoutNs / 10;
  ASSERT_TRUE(RunUntil([&] { return job_.now_ns() >= until_ns; }));
  for (int rank = 0; rank < kRanks; ++rank) job_.clock(rank).Work(kPauseNs);
  ASSERT_TRUE(job_.RunUntil([&] { return job_[1].turn() == 1 && job_[2].turn() == 1; },
                            job_.now_ns() + kPauseNs + kBoundNs));
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_TRUE(job_[rank].fatal().ok()) << job_[rank].fatal().ToString();
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
