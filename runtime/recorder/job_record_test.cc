#include "runtime/recorder/job_record.h"

#include <gtest/gtest.h>

#include "runtime/recorder/diagnosis.h"
#include "runtime/recorder/recorded_world.h"

namespace gradwire {
namespace {

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
