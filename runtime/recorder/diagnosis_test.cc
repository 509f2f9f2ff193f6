#include "runtime/recorder/diagnosis.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/recorder/recorded_world.h"

namespace gradwire {
namespace {

using Ranks = std::vector<int>;

void ExpectVerdict(const Diagnosis& diagnosis, const Ranks& culprits,
                   const std::vector<std::string>& parts) {
  EXPECT_EQ(diagnosis.culprits, culprits) << diagnosis.verdict;
  for (const std::string& part : parts) {
    EXPECT_NE(diagnosis.verdict.find(part), std::string::npos)
        << "'" << part << "' is not in: " << diagnosis.verdict;
  }
}

TEST(Diagnose, JobThatEndedWell) {
  RecordedWorld world(3);
  for (int i = 0; i < 4; ++i) world.GoodTurn(2);
  world.RecordAll({.kind = RecordKind::kClose});
  const Diagnosis diagnosis = world.Diagnose();
  ExpectVerdict(diagnosis, {}, {"all ranks ended as they should"});
  EXPECT_TRUE(diagnosis.findings.empty());
  EXPECT_TRUE(UnfinishedOps(world.Merge()).empty());
}

TEST(Diagnose, RankThatNeverSubmitted) {
  RecordedWorld world(4);
  world.GoodTurn(1);
  for (int rank = 0; rank < 4; ++rank) world.Submit(rank, 0, "w0");
  world.At(500);
  for (int rank = 0; rank < 3; ++rank) world.Submit(rank, 1, "w1");
  world.Record(0, {.kind = RecordKind::kWaiting, .op_seq = 1, .peer = 1, .text = "all-reduce w1"});
  ExpectVerdict(world.Diagnose(), {3},
                {"rank 3 never submitted operation #1 (all-reduce w1)", "ranks 0 to 2 wait",
                 "0.500 s before", "operation #0 (all-reduce w0) submitted"});
  const auto ops = UnfinishedOps(world.Merge());
  ASSERT_EQ(ops.size(), 2u);
  EXPECT_EQ(ops[1].missing, Ranks{3});
  EXPECT_EQ(ops[1].open, (Ranks{0, 1, 2}));
}

TEST(Diagnose, RankThatWasKilled) {
  RecordedWorld world(4);
  world.GoodTurn(1);
  for (int rank = 0; rank < 4; ++rank) world.Submit(rank, 0, "w0");
  world.Record(2, {.kind = RecordKind::kSliceDone, .op_seq = 0, .slice = 3});
  world.At(800);
  for (const int rank : {0, 1, 3}) world.Lost(rank, 2);
  ExpectVerdict(world.Diagnose(), {2},
                {"rank 2 was lost: the connection broke", "ranks 0, 1 and 3 recorded",
                 "ends 0.800 s before", "slice 3 of operation #0 done", "killed or stopped?"});
}

TEST(Diagnose, KilledRankWithoutFile) {
  RecordedWorld world(3);
  world.Submit(0, 0, "w0");
  world.Submit(1, 0, "w0");
  for (const int rank : {0, 1}) {
    world.Record(rank, {.kind = RecordKind::kError, .peer = 2, .status = gwPeerLost});
  }
  world.Hide(2);
  ExpectVerdict(world.Diagnose(), {2}, {"rank 2 was lost", "it left no readable file"});
}

TEST(Diagnose, StoppedRankThatComesBackIsStillTheCulprit) {
  RecordedWorld world(2);
  world.GoodTurn(1);
  world.At(12'000);
  world.Lost(0, 1, "no sign of life");
  world.At(30'000);
  world.Lost(1, 0);
  ExpectVerdict(world.Diagnose(), {1}, {"rank 1 was lost: no sign of life"});
}

TEST(Diagnose, RankThatFailedBeforeItWasLost) {
  RecordedWorld world(3);
  world.Submit(0, 0, "w0");
  world.At(5);
  world.Record(1, {.kind = RecordKind::kError, .status = gwSystemError, .text = "no memory"});
  world.At(9);
  world.Lost(0, 1);
  world.Lost(2, 1);
  ExpectVerdict(world.Diagnose(), {1}, {"rank 1: communicator failed: system error: no memory"});
}

TEST(Diagnose, RankThatLeftEarly) {
  RecordedWorld world(2);
  world.GoodTurn(1);
  world.Record(1, {.kind = RecordKind::kClose});
  world.At(1000);
  world.Submit(0, 0, "w0");
  world.Record(0, {.kind = RecordKind::kError, .peer = 1, .status = gwPeerLost});
  ExpectVerdict(world.Diagnose(), {1}, {"rank 1 was lost", "it had closed the communicator"});
}

TEST(Diagnose, TellsWhichStepALateRankIsIn) {
  RecordedWorld world(2);
  world.GoodTurn(1);
  world.RecordAll({.kind = RecordKind::kStepBegin, .step = 78});
  world.Submit(0, 0, "w0");
  ExpectVerdict(world.Diagnose(), {1}, {"rank 1 never submitted", "rank 1 (in step 78)'s last"});
}

// All ranks record the same result, one of them first.
TEST(Diagnose, AResultBlamesNobodyButWhomItNames) {
  for (const int peer : {-1, 2}) {
    RecordedWorld world(3);
    world.Result(2, gwMismatch, peer);
    world.RecordAll({.kind = RecordKind::kClose});
    EXPECT_EQ(world.Diagnose().culprits, peer < 0 ? std::vector<int>{} : std::vector<int>{peer});
  }
}

TEST(Diagnose, MinorityOfADisagreementIsNamed) {
  RecordedWorld world(4);
  world.GoodTurn(2);
  for (const int rank : {0, 1, 3}) world.Submit(rank, 0, "w0", 11);
  world.Submit(2, 0, "v0", 22);
  world.RecordAll({.kind = RecordKind::kRevoke, .peer = 2, .status = gwMismatch, .value = 0});
  world.Result(2, gwMismatch, 2);
  world.RecordAll({.kind = RecordKind::kClose});
  ExpectVerdict(world.Diagnose(), {2},
                {"disagree about operation #0",
                 "ranks 0, 1 and 3: all-reduce w0, 4096 bytes of float", "rank 2: all-reduce v0"});
}

TEST(Diagnose, TwoRanksThatDisagreeAreBothNamed) {
  RecordedWorld world(2);
  world.Submit(0, 0, "w0", 11);
  world.Submit(1, 0, "w0", 22);
  ExpectVerdict(world.Diagnose(), {0, 1}, {"disagree about operation #0"});
}

TEST(Diagnose, DifferentNumbersOfOperations) {
  RecordedWorld fewer(4);
  for (int rank = 0; rank < 4; ++rank) fewer.Submit(rank, 0, "w0");
  for (const int rank : {0, 1, 3}) fewer.Submit(rank, 1, "w1");
  fewer.End(2, 1);
  ExpectVerdict(fewer.Diagnose(), {2},
                {"number of operations", "rank 2: 1", "ranks 0, 1 and 3: 2"});

  RecordedWorld more(4);
  for (int rank = 0; rank < 4; ++rank) more.Submit(rank, 0, "w0");
  more.Submit(3, 1, "w1");
  for (const int rank : {0, 1, 2}) more.End(rank, 1);
  ExpectVerdict(more.Diagnose(), {3}, {"number of operations", "ranks 0 to 2: 1; rank 3: 2"});

  RecordedWorld late(2);  // nothing wrong yet: rank 1 is only slow
  late.Submit(0, 0, "w0");
  late.End(0, 1);
  const Diagnosis diagnosis = late.Diagnose();
  ExpectVerdict(diagnosis, {1}, {"rank 1 never submitted operation #0 (all-reduce w0)"});
  EXPECT_EQ(diagnosis.findings[0].kind, FindingKind::kNeverSubmitted);
}

TEST(Diagnose, CorruptFrameNamesItsSender) {
  RecordedWorld world(3);
  for (int rank = 0; rank < 3; ++rank) world.Submit(rank, 0, "w0");
  world.At(1);
  world.Record(0, {.kind = RecordKind::kRevoke,
                   .peer = 1,
                   .status = gwDataCorrupt,
                   .value = 0,
                   .text = "bad checksum"});
  world.At(2);
  for (const int rank : {1, 2}) {
    world.Record(rank,
                 {.kind = RecordKind::kRevoke, .peer = 1, .status = gwDataCorrupt, .value = 0});
  }
  ExpectVerdict(world.Diagnose(), {1},
                {"rank 0: step revoked by rank 0: data corrupt: bad checksum"});
}

TEST(Diagnose, WhatWasSurvivedIsOnlyANote) {
  RecordedWorld world(3);
  for (int rank = 0; rank < 3; ++rank) world.Submit(rank, 0, "w0", rank == 1 ? 22 : 11);
  world.Result(2, gwMismatch, 1);
  world.GoodTurn(1);
  world.RecordAll({.kind = RecordKind::kClose});
  const Diagnosis diagnosis = world.Diagnose();
  ExpectVerdict(diagnosis, {}, {"all ranks ended as they should"});
  ASSERT_EQ(diagnosis.findings.size(), 1u);
  EXPECT_EQ(diagnosis.findings[0].text, "earlier, 1 step was aborted and 0 skipped: survived");
}

TEST(Diagnose, AbortedTurnsAreOver) {
  RecordedWorld world(3);
  world.Submit(0, 0, "w0");
  world.Complete(0, 0, gwAborted);
  world.Result(2, gwAborted);
  for (int rank = 1; rank < 3; ++rank) world.Submit(rank, 0, "w0");
  const auto ops = UnfinishedOps(world.Merge());
  ASSERT_EQ(ops.size(), 1u);
  EXPECT_EQ(ops[0].at.turn, 1);
  ExpectVerdict(world.Diagnose(), {0}, {"rank 0 never submitted operation #0"});
}

TEST(Diagnose, RankThatHungWhileTheOthersGaveUp) {
  RecordedWorld world(3);
  world.GoodTurn(2);
  for (int rank = 0; rank < 3; ++rank) world.Submit(rank, 0, "w0"), world.Complete(rank, 0);
  for (const int rank : {0, 1}) world.Submit(rank, 1, "w1");
  world.At(1000);
  const RecorderEvent late = {.kind = RecordKind::kRevoke, .peer = 0, .status = gwTimeout};
  world.RecordAll(late);
  for (const int rank : {0, 1}) {
    world.Record(rank, {.kind = RecordKind::kVote, .status = gwTimeout, .value = 2});
  }
  world.Record(2, {.kind = RecordKind::kVote, .status = gwTimeout, .value = 1});  // by its engine
  world.Result(2, gwTimeout);
  for (const int rank : {0, 1}) world.Record(rank, {.kind = RecordKind::kClose});
  ExpectVerdict(world.Diagnose(), {2}, {"rank 2 never submitted operation #1 (all-reduce w1)"});
}

TEST(Diagnose, HabitDecidesWhereThereIsNoMajority) {
  RecordedWorld world(3);
  world.GoodTurn(2);
  for (int rank = 0; rank < 3; ++rank) world.Submit(rank, 0, "w0");
  world.Submit(0, 1, "v", 22);
  world.Submit(2, 1, "w1");  // as in the step before
  ExpectVerdict(world.Diagnose(), {0}, {"operation #1", "in earlier steps all did as rank 2"});

  RecordedWorld count(3);
  count.GoodTurn(3);
  for (int rank = 0; rank < 3; ++rank) count.Submit(rank, 0, "w0");
  count.Submit(1, 1, "w1");  // is on its way to 3
  count.End(2, 1);
  ExpectVerdict(count.Diagnose(), {2},
                {"number of operations", "rank 1: 2 so far", "rank 2: 1", "all did as rank 1"});
}

TEST(Diagnose, TwoTurnsUnderWay) {
  RecordedWorld world(2);
  world.GoodTurn(1);
  world.Submit(0, 0, "w0");
  world.End(0, 1);  // without waiting for the outcome
  world.set_turn(2);
  world.Submit(0, 0, "w0");
  const auto ops = UnfinishedOps(world.Merge());
  ASSERT_EQ(ops.size(), 2u);
  EXPECT_EQ(ops[0].missing, Ranks{1});
}

TEST(Diagnose, FollowsWhoWaitsForWhom) {
  RecordedWorld world(4);
  for (int rank = 0; rank < 4; ++rank) world.Submit(rank, 0, "w0");
  world.At(100);
  const auto wait = [&](int rank, int peer) {
    world.Record(rank, {.kind = RecordKind::kWaiting, .peer = peer, .text = "all-reduce w0"});
  };
  wait(0, 1);
  wait(1, 3);
  wait(2, 3);
  ExpectVerdict(world.Diagnose(), {3}, {"ranks wait for each other: 0 for 1 for 3", "rank 3"});
  wait(3, 1);
  ExpectVerdict(world.Diagnose(), {}, {"nothing points at a rank"});
}

TEST(Diagnose, MissingFileIsTheLastResort) {
  RecordedWorld world(3);
  world.Submit(0, 0, "w0");
  world.Submit(1, 0, "w0");
  world.Hide(2);
  ExpectVerdict(world.Diagnose(), {2}, {"no readable file of rank 2"});
}

TEST(Diagnose, TurnsWrapAndRingsForget) {
  RecordedWorld world(3, 16);
  world.set_turn(65533);
  for (int i = 0; i < 5; ++i) world.GoodTurn(3);  // more than a ring holds
  for (int rank = 0; rank < 2; ++rank) world.Submit(rank, 0, "w0");
  const JobRecord job = world.Merge();
  EXPECT_GT(job.ranks[0].log.overwritten, 0u);
  ExpectVerdict(Diagnose(job), {2}, {"rank 2 never submitted operation #0 (all-reduce w0)"});
}

TEST(Diagnose, RanksOnBothSidesOfTheWrap) {
  RecordedWorld world(2);
  world.set_turn(65535);
  world.GoodTurn(1);
  world.Submit(0, 0, "w0");  // turn 65536, 0 in the file; rank 1's file has turn 65535 only
  ExpectVerdict(world.Diagnose(), {1}, {"rank 1 never submitted operation #0"});
}

}  // namespace
}  // namespace gradwire
