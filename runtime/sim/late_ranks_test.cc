// Ranks that leave while others still work, in virtual time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "base/status.h"
#include "collectives/schedule.h"
#include "runtime/sim/late_ranks.h"
#include "runtime/sim/sim_job.h"

namespace gradwire {
namespace {

using testing::HasSubstr;

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

}  // namespace
}  // namespace gradwire
