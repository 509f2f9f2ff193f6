#include "runtime/engine/still_clock.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace gradwire {
namespace {

constexpr int64_t kBeginNs = 1'000;
constexpr int64_t kNoteNs = StillClock::kNoteNs;
constexpr int64_t kStandstillNs = StillClock::kStandstillNs;

TEST(StillClock, CountsFromTheFirstLookAfterAMove) {
  StillClock still(kBeginNs, INT64_MAX);
  EXPECT_EQ(still.StillNs(kBeginNs + 5), 5);
  still.NoteMove();
  EXPECT_EQ(still.since_ns(), kBeginNs) << "nobody has looked";
  EXPECT_EQ(still.StillNs(kBeginNs + 20), 0);
  EXPECT_EQ(still.since_ns(), kBeginNs + 20);
  EXPECT_EQ(still.StillNs(kBeginNs + 27), 7);
}

TEST(StillClock, ANoteIsDueOnceInARest) {
  StillClock still(kBeginNs, INT64_MAX);
  EXPECT_FALSE(still.TakeNoteDue(kBeginNs + kNoteNs));
  EXPECT_TRUE(still.TakeNoteDue(kBeginNs + kNoteNs + 1));
  EXPECT_FALSE(still.TakeNoteDue(kBeginNs + 5 * kNoteNs));
  still.NoteMove();
  const int64_t moved_ns = kBeginNs + 6 * kNoteNs;
  EXPECT_FALSE(still.TakeNoteDue(moved_ns));
  EXPECT_TRUE(still.TakeNoteDue(moved_ns + kNoteNs + 1));
}

TEST(StillClock, AStandstillIsToldEverMoreRarely) {
  StillClock still(0, INT64_MAX);
  std::vector<int64_t> told;
  for (int64_t now_ns = 0; now_ns <= 10 * kStandstillNs; now_ns += kStandstillNs / 2) {
    if (still.TakeStandstillDue(now_ns)) told.push_back(now_ns * 2 / kStandstillNs);
  }
  EXPECT_EQ(told, (std::vector<int64_t>{3, 5, 9, 17}));
  still.NoteMove();
  EXPECT_FALSE(still.TakeStandstillDue(20 * kStandstillNs));
  EXPECT_TRUE(still.TakeStandstillDue(21 * kStandstillNs + 1));
}

TEST(StillClock, ARestartGivesTimeButNothingIsDueAgain) {
  StillClock still(0, INT64_MAX);
  EXPECT_TRUE(still.TakeNoteDue(kNoteNs + 1));
  EXPECT_TRUE(still.TakeStandstillDue(kNoteNs + 1));
  still.Restart(2 * kNoteNs);
  EXPECT_EQ(still.StillNs(2 * kNoteNs + 3), 3);
  EXPECT_FALSE(still.TakeNoteDue(4 * kNoteNs));
  EXPECT_FALSE(still.TakeStandstillDue(2 * kNoteNs + kStandstillNs + 1));
}

// As where all ranks were stopped: nobody is late for that.
TEST(StillClock, BeginsAnewAfterAPauseOfItsOwn) {
  constexpr int64_t kPauseNs = kStandstillNs;
  StillClock still(0, kPauseNs);
  EXPECT_EQ(still.StillNs(kPauseNs), kPauseNs);
  const int64_t after_ns = 2 * kPauseNs + 1;
  EXPECT_EQ(still.StillNs(after_ns), 0);
  EXPECT_EQ(still.since_ns(), after_ns);
  EXPECT_EQ(still.StillNs(after_ns + kPauseNs), kPauseNs);
  EXPECT_EQ(still.StillNs(after_ns + 2 * kPauseNs), 2 * kPauseNs) << "it was looked at in time";
}

}  // namespace
}  // namespace gradwire
