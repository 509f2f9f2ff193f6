#include "cli/launch/end_of_job.h"

#include <gtest/gtest.h>

#include <csignal>

namespace gradwire {
namespace {

constexpr int64_t kGraceNs = 15 * kNsPerSecond;

TEST(EndOfJob, NothingIsDueWhileTheJobRuns) {
  ManualClock clock;
  EndOfJob end(clock, kGraceNs);
  clock.Advance(1000 * kNsPerSecond);
  EXPECT_EQ(end.TakeDueSignal(), 0);
  EXPECT_TRUE(end.next().never());
  EXPECT_FALSE(end.begun());
}

TEST(EndOfJob, GraceThenTermThenKillOnceEach) {
  ManualClock clock;
  EndOfJob end(clock, kGraceNs);
  end.Begin();
  clock.Advance(kGraceNs - 1);
  EXPECT_EQ(end.TakeDueSignal(), 0);
  end.Begin();  // a second failure does not start the grace again
  clock.Advance(1);
  EXPECT_EQ(end.TakeDueSignal(), SIGTERM);
  EXPECT_EQ(end.TakeDueSignal(), 0);
  clock.Advance(EndOfJob::kTermToKillNs);
  EXPECT_EQ(end.TakeDueSignal(), SIGKILL);
  clock.Advance(kGraceNs);
  EXPECT_EQ(end.TakeDueSignal(), 0);
}

TEST(EndOfJob, BeginNowLeavesTheGraceOut) {
  ManualClock clock;
  EndOfJob end(clock, kGraceNs);
  end.Begin();
  end.BeginNow();
  EXPECT_EQ(end.TakeDueSignal(), SIGTERM);
  end.BeginNow();  // no second SIGTERM
  EXPECT_EQ(end.TakeDueSignal(), 0);
}

TEST(EndOfJob, HurryKillsWhateverTheStage) {
  ManualClock clock;
  EndOfJob end(clock, kGraceNs);
  end.Hurry();
  EXPECT_EQ(end.TakeDueSignal(), SIGKILL);
  end.Hurry();
  EXPECT_EQ(end.TakeDueSignal(), 0);
}

}  // namespace
}  // namespace gradwire
