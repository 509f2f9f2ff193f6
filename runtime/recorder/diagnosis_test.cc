#include "runtime/recorder/diagnosis.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/recorder/recorder.h"

namespace gradwire {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kEpochNs = 1'700'000'000'000'000'000;

// Ranks that write what an engine would. Every rank's monotonic clock has another origin.
class World {
 public:
  explicit World(int world_size, int64_t capacity = 256) {
    for (int rank = 0; rank < world_size; ++rank) {
      auto recorder = Recorder::Open({.job = 0x4d2,
                                      .rank = rank,
                                      .world_size = world_size,
                                      .start_wall_ns = kEpochNs,
                                      .start_time_ns = Origin(rank),
                                      .capacity = capacity});
      recorders_.push_back(std::move(*recorder));
    }
  }

  void At(int64_t ms) { now_ns_ = ms * kMs; }
  void Record(int rank, RecorderEvent event) {
    event.time_ns = Origin(rank) + now_ns_;
    event.turn = static_cast<uint16_t>(turn_);
    recorders_[rank]->Record(event);
  }
  void RecordAll(const RecorderEvent& event) {
    for (int rank = 0; rank < size(); ++rank) Record(rank, event);
  }
  void Submit(int rank, uint32_t op, std::string tensor, uint64_t signature = 1) {
    Record(rank, {.kind = RecordKind::kSubmit,
                  .op_seq = op,
                  .bytes = 4096,
                  .dtype = DType::kFloat32,
                  .signature = signature,
                  .text = "all-reduce",
                  .tensor = tensor});
  }
  void Complete(int rank, uint32_t op, gwResult_t status = gwSuccess) {
    Record(rank, {.kind = RecordKind::kComplete, .op_seq = op, .status = status});
  }
  void End(int rank, int operations) {
    Record(rank, {.kind = RecordKind::kStepEnd, .step = 77, .value = operations});
  }
  void Result(int outcome, gwResult_t status = gwSuccess, int peer = -1) {
    RecordAll({.kind = RecordKind::kResult,
               .step = 77,
               .peer = peer,
               .status = status,
               .value = outcome});
    ++turn_;
  }
  // A turn of `ops` operations that goes well.
  void GoodTurn(uint32_t ops) {
    for (int rank = 0; rank < size(); ++rank) {
      for (uint32_t op = 0; op < ops; ++op) {
        Submit(rank, op, "w" + std::to_string(op));
        Complete(rank, op);
      }
      End(rank, static_cast<int>(ops));
    }
    Result(0);
  }
  void Lost(int rank, int peer, std::string how = "the connection broke") {
    Record(rank, {.kind = RecordKind::kPeerLost, .peer = peer, .text = how});
  }
  void Hide(int rank) { recorders_[rank].reset(); }
  void set_turn(int64_t turn) { turn_ = turn; }
  int size() const { return static_cast<int>(recorders_.size()); }

  JobRecord Merge() const {
    std::vector<RecorderLog> logs;
    for (const auto& recorder : recorders_) {
      if (recorder) logs.push_back(*ParseRecorder(recorder->memory()));
    }
    return MergeLogs(std::move(logs));
  }
  Diagnosis Diagnose() const { return gradwire::Diagnose(Merge()); }

 private:
  static int64_t Origin(int rank) { return 1000 * kMs * (rank + 1); }

  std::vector<std::unique_ptr<Recorder>> recorders_;
  int64_t now_ns_ = 0;
  int64_t turn_ = 0;
};

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
  World world(3);
  for (int i = 0; i < 4; ++i) world.GoodTurn(2);
  world.RecordAll({.kind = RecordKind::kClose});
  const Diagnosis diagnosis = world.Diagnose();
  ExpectVerdict(diagnosis, {}, {"all ranks ended as they should"});
  EXPECT_TRUE(diagnosis.findings.empty());
  EXPECT_TRUE(UnfinishedOps(world.Merge()).empty());
}

TEST(Diagnose, RankThatNeverSubmitted) {
  World world(4);
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
  World world(4);
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
  World world(3);
  world.Submit(0, 0, "w0");
  world.Submit(1, 0, "w0");
  for (const int rank : {0, 1}) {
    world.Record(rank, {.kind = RecordKind::kError, .peer = 2, .status = gwPeerLost});
  }
  world.Hide(2);
  ExpectVerdict(world.Diagnose(), {2}, {"rank 2 was lost", "it left no readable file"});
}

TEST(Diagnose, StoppedRankThatComesBackIsStillTheCulprit) {
  World world(2);
  world.GoodTurn(1);
  world.At(12'000);
  world.Lost(0, 1, "no sign of life");
  world.At(30'000);
  world.Lost(1, 0);
  ExpectVerdict(world.Diagnose(), {1}, {"rank 1 was lost: no sign of life"});
}

TEST(Diagnose, RankThatFailedBeforeItWasLost) {
  World world(3);
  world.Submit(0, 0, "w0");
  world.At(5);
  world.Record(1, {.kind = RecordKind::kError, .status = gwSystemError, .text = "no memory"});
  world.At(9);
  world.Lost(0, 1);
  world.Lost(2, 1);
  ExpectVerdict(world.Diagnose(), {1}, {"rank 1: communicator failed: system error: no memory"});
}

TEST(Diagnose, RankThatLeftEarly) {
  World world(2);
  world.GoodTurn(1);
  world.Record(1, {.kind = RecordKind::kClose});
  world.At(1000);
  world.Submit(0, 0, "w0");
  world.Record(0, {.kind = RecordKind::kError, .peer = 1, .status = gwPeerLost});
  ExpectVerdict(world.Diagnose(), {1}, {"rank 1 was lost", "it had closed the communicator"});
}

TEST(Diagnose, MinorityOfADisagreementIsNamed) {
  World world(4);
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
  World world(2);
  world.Submit(0, 0, "w0", 11);
  world.Submit(1, 0, "w0", 22);
  ExpectVerdict(world.Diagnose(), {0, 1}, {"disagree about operation #0"});
}

TEST(Diagnose, DifferentNumbersOfOperations) {
  World fewer(4);
  for (int rank = 0; rank < 4; ++rank) fewer.Submit(rank, 0, "w0");
  for (const int rank : {0, 1, 3}) fewer.Submit(rank, 1, "w1");
  fewer.End(2, 1);
  ExpectVerdict(fewer.Diagnose(), {2},
                {"number of operations", "rank 2: 1", "ranks 0, 1 and 3: 2"});

  World more(4);
  for (int rank = 0; rank < 4; ++rank) more.Submit(rank, 0, "w0");
  more.Submit(3, 1, "w1");
  for (const int rank : {0, 1, 2}) more.End(rank, 1);
  ExpectVerdict(more.Diagnose(), {3}, {"number of operations", "ranks 0 to 2: 1; rank 3: 2"});

  World late(2);  // nothing wrong yet: rank 1 is only slow
  late.Submit(0, 0, "w0");
  late.End(0, 1);
  const Diagnosis diagnosis = late.Diagnose();
  ExpectVerdict(diagnosis, {1}, {"rank 1 never submitted operation #0 (all-reduce w0)"});
  EXPECT_EQ(diagnosis.findings[0].kind, FindingKind::kNeverSubmitted);
}

TEST(Diagnose, CorruptFrameNamesItsSender) {
  World world(3);
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
  World world(3);
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
  World world(3);
  world.Submit(0, 0, "w0");
  world.Complete(0, 0, gwAborted);
  world.Result(2, gwAborted);
  for (int rank = 1; rank < 3; ++rank) world.Submit(rank, 0, "w0");
  const auto ops = UnfinishedOps(world.Merge());
  ASSERT_EQ(ops.size(), 1u);
  EXPECT_EQ(ops[0].at.turn, 1);
  ExpectVerdict(world.Diagnose(), {0}, {"rank 0 never submitted operation #0"});
}

TEST(Diagnose, FollowsWhoWaitsForWhom) {
  World world(4);
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
  World world(3);
  world.Submit(0, 0, "w0");
  world.Submit(1, 0, "w0");
  world.Hide(2);
  ExpectVerdict(world.Diagnose(), {2}, {"no readable file of rank 2"});
}

TEST(Diagnose, TurnsWrapAndRingsForget) {
  World world(3, 16);
  world.set_turn(65533);
  for (int i = 0; i < 5; ++i) world.GoodTurn(3);  // more than a ring holds
  for (int rank = 0; rank < 2; ++rank) world.Submit(rank, 0, "w0");
  const JobRecord job = world.Merge();
  EXPECT_GT(job.ranks[0].log.overwritten, 0u);
  ExpectVerdict(Diagnose(job), {2}, {"rank 2 never submitted operation #0 (all-reduce w0)"});
}

TEST(Diagnose, RanksOnBothSidesOfTheWrap) {
  World world(2);
  world.set_turn(65535);
  world.GoodTurn(1);
  world.Submit(0, 0, "w0");  // turn 65536, 0 in the file; rank 1's file has turn 65535 only
  ExpectVerdict(world.Diagnose(), {1}, {"rank 1 never submitted operation #0"});
}

TEST(MergeLogs, VotesOfOthersCountWhereTheirFileIsMissing) {
  World world(3);
  world.Record(0, {.kind = RecordKind::kVote, .value = 5});
  world.Record(0, {.kind = RecordKind::kVoteHeard, .peer = 1, .value = 5});
  world.Record(0, {.kind = RecordKind::kVoteHeard, .peer = 2, .status = gwDataCorrupt, .value = 4});
  world.Record(1, {.kind = RecordKind::kVote, .value = 6});
  world.Hide(2);
  const JobRecord job = world.Merge();
  const auto& votes = job.votes.at(0);
  ASSERT_EQ(votes.size(), 3u);
  EXPECT_EQ(votes.at(1).value, 6);  // own word
  EXPECT_EQ(votes.at(2).status, gwDataCorrupt);
}

TEST(MergeLogs, NamesComeFromWhoRemembers) {
  World world(2, 4);
  world.Submit(0, 0, "w0");
  for (uint32_t slice = 0; slice < 9; ++slice) {
    world.Record(1, {.kind = RecordKind::kSliceDone, .slice = slice});
  }
  EXPECT_EQ(world.Merge().ops.at({0, 0}).at(1).text, "all-reduce w0");
}

TEST(MergeLogs, RefusedOperationsWereNotSubmitted) {
  World world(2);
  world.Submit(0, 0, "w0");
  world.Complete(1, 0, gwAborted);
  const JobRecord job = world.Merge();
  EXPECT_EQ(job.ops.at({0, 0}).count(1), 0u);
  EXPECT_EQ(job.Submitted(1, {0, 0}), false);
}

TEST(MergeLogs, NothingGivesNothing) {
  const JobRecord job = MergeLogs({});
  EXPECT_EQ(job.world_size, 0);
  EXPECT_TRUE(Diagnose(job).findings.empty());
}

TEST(MergeLogs, NonsensePeersAreHarmless) {
  World world(2);
  for (int kind = 0; kind < kRecordKinds; ++kind) {
    for (const int peer : {-7, 2, 1 << 30}) {
      world.Record(0, {.kind = static_cast<RecordKind>(kind),
                       .op_seq = 0xFFFFFFFF,
                       .peer = peer,
                       .status = static_cast<gwResult_t>(77),
                       .value = -1});
    }
  }
  EXPECT_FALSE(world.Diagnose().verdict.empty());
}

}  // namespace
}  // namespace gradwire
