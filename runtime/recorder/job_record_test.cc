#include "runtime/recorder/job_record.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/recorder/diagnosis.h"
#include "runtime/recorder/recorded_world.h"

namespace gradwire {
namespace {

TEST(MergeLogs, VotesOfOthersCountWhereTheirFileIsMissing) {
  RecordedWorld world(3);
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
  RecordedWorld world(2, 4);
  world.Submit(0, 0, "w0");
  for (uint32_t slice = 0; slice < 9; ++slice) {
    world.Record(1, {.kind = RecordKind::kSliceDone, .slice = slice});
  }
  EXPECT_EQ(world.Merge().ops.at({0, 0}).at(1).text, "all-reduce w0");
}

TEST(MergeLogs, RefusedOperationsWereNotSubmitted) {
  RecordedWorld world(2);
  world.Submit(0, 0, "w0");
  world.Complete(1, 0, gwAborted);
  const JobRecord job = world.Merge();
  EXPECT_EQ(job.ops.at({0, 0}).count(1), 0u);
  EXPECT_EQ(job.Submitted(1, {0, 0}), false);
}

// The turn's numbers pass 2^32, of which the last is never given.
constexpr uint32_t kBeforeTheWrap = 0xFFFFFFFE;
constexpr int64_t kWrapped = int64_t{1} << 32;

TEST(MergeLogs, WhatComesAfterTheWrapIsBehind) {
  RecordedWorld world(3);
  for (int rank = 0; rank < 3; ++rank) world.Submit(rank, kBeforeTheWrap, "w0");
  for (int rank = 0; rank < 2; ++rank) world.Submit(rank, 0, "w1");
  world.Submit(0, 1, "w2");
  const JobRecord job = world.Merge();
  EXPECT_EQ(job.ops.begin()->first, (OpPosition{0, kBeforeTheWrap}));
  EXPECT_EQ(job.ops.rbegin()->first, (OpPosition{0, kWrapped + 1}));
  EXPECT_EQ(job.ops.rbegin()->first.number(), 1u);
  EXPECT_EQ(job.ranks[1].next, (OpPosition{0, kWrapped + 1}));
  EXPECT_EQ(job.Submitted(1, {0, kWrapped}), true);
  EXPECT_EQ(job.Submitted(1, {0, kWrapped + 1}), false);
  EXPECT_EQ(job.Submitted(2, {0, kWrapped}), false);
  const Diagnosis diagnosis = world.Diagnose();
  EXPECT_EQ(diagnosis.culprits, (std::vector<int>{2}));
  EXPECT_NE(diagnosis.verdict.find("rank 2 never submitted operation #0 "), std::string::npos)
      << diagnosis.verdict;
}

// Of two disagreements the one before the wrap is the cause.
TEST(MergeLogs, DisagreementsAreInOrderOverTheWrap) {
  RecordedWorld world(3);
  for (int rank = 0; rank < 3; ++rank) {
    world.Submit(rank, kBeforeTheWrap, "w0", rank == 1 ? 7 : 1);
    world.Submit(rank, 0, "w1", rank == 2 ? 7 : 1);
  }
  const Diagnosis diagnosis = world.Diagnose();
  EXPECT_EQ(diagnosis.culprits, (std::vector<int>{1}));
  EXPECT_NE(diagnosis.verdict.find("operation #4294967294"), std::string::npos)
      << diagnosis.verdict;
}

// Who ended the step has submitted what lies before its count, and nothing behind it.
TEST(MergeLogs, CountsAreInOrderOverTheWrap) {
  RecordedWorld world(3);
  for (int rank = 0; rank < 3; ++rank) world.Submit(rank, kBeforeTheWrap, "w0");
  for (int rank = 0; rank < 2; ++rank) world.Submit(rank, 0, "w1");
  world.Record(0, {.kind = RecordKind::kVote, .value = 1});
  world.End(1, 1);
  world.End(2, static_cast<int>(kBeforeTheWrap + 1));
  const JobRecord job = world.Merge();
  EXPECT_EQ(job.ranks[1].ended.at(0), kWrapped + 1);
  EXPECT_EQ(job.ranks[2].ended.at(0), kWrapped - 1);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(job.Submitted(rank, {0, kBeforeTheWrap - 1}), true) << rank;
    EXPECT_EQ(job.Submitted(rank, {0, kWrapped + 1}), false) << rank;
  }
  EXPECT_EQ(job.Submitted(2, {0, kWrapped}), false);
}

// Another turn begins at 0 again.
TEST(MergeLogs, TheWrapIsOfItsTurnAlone) {
  RecordedWorld world(2);
  for (int rank = 0; rank < 2; ++rank) {
    world.Submit(rank, kBeforeTheWrap, "w0");
    world.Submit(rank, 0, "w1");
    world.End(rank, 1);
  }
  world.Result(0);
  world.Submit(0, 0, "w0");
  const JobRecord job = world.Merge();
  EXPECT_EQ(job.ops.rbegin()->first, (OpPosition{1, 0}));
  EXPECT_EQ(job.Submitted(1, {1, 0}), false);
}

TEST(MergeLogs, NothingGivesNothing) {
  const JobRecord job = MergeLogs({});
  EXPECT_EQ(job.world_size, 0);
  EXPECT_TRUE(Diagnose(job).findings.empty());
}

TEST(MergeLogs, NonsensePeersAreHarmless) {
  RecordedWorld world(2);
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
