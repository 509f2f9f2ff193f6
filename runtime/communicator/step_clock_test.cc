#include "runtime/communicator/step_clock.h"

#include <gtest/gtest.h>

#include "base/clock.h"

namespace gradwire {
namespace {

TEST(StepClock, MeasuresNothingBeforeAStepHasEnded) {
  StepClock clock;
  EXPECT_FALSE(clock.is_running());
  EXPECT_FALSE(clock.Medians());
  clock.Begin(5);
  EXPECT_TRUE(clock.is_running());
  EXPECT_EQ(clock.steps(), 0);
  EXPECT_FALSE(clock.Medians());
}

TEST(StepClock, TellsTheMediansOfWholeSteps) {
  StepClock clock;
  clock.Begin(0);
  // Blocked for 1 ms twice, 3 and 4; the step that evaluates is longer than all others.
  for (const auto& [end_ms, blocked_ms] : {std::pair{10, 2}, {110, 3}, {122, 4}}) {
    clock.NoteBlocked((blocked_ms - 1) * kNsPerMs);
    clock.NoteBlocked(kNsPerMs);
    clock.Begin(end_ms * kNsPerMs);
  }
  clock.NoteBlocked(50 * kNsPerMs);  // of a step that has not ended
  EXPECT_EQ(clock.steps(), 3);
  const std::optional<StepMedians> medians = clock.Medians();
  ASSERT_TRUE(medians);
  EXPECT_DOUBLE_EQ(medians->step_ms, 12);
  EXPECT_DOUBLE_EQ(medians->compute_ms, 8);
  EXPECT_DOUBLE_EQ(medians->exposed_comm_ms, 3);
}

TEST(StepClock, ForgetsWhatIsLongAgo) {
  StepClock clock;
  int64_t now_ns = 0;
  clock.Begin(now_ns);
  for (int i = 0; i < 2 * StepClock::kKept; ++i) {
    now_ns += i < StepClock::kKept ? kNsPerMs : 3 * kNsPerMs;
    clock.Begin(now_ns);
  }
  EXPECT_EQ(clock.steps(), 2 * StepClock::kKept);
  EXPECT_DOUBLE_EQ(clock.Medians()->step_ms, 3);
}

}  // namespace
}  // namespace gradwire
