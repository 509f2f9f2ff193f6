#include "base/clock.h"

#include <gtest/gtest.h>

#include <climits>
#include <cstdint>

namespace gradwire {
namespace {

TEST(SteadyClock, NeverDecreases) {
  int64_t last = SteadyClock().NowNs();
  for (int i = 0; i < 10000; ++i) {
    const int64_t now = SteadyClock().NowNs();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(ManualClock, MovesOnlyWhenTold) {
  ManualClock clock(5);
  EXPECT_EQ(clock.NowNs(), 5);
  clock.Advance(10);
  EXPECT_EQ(clock.NowNs(), 15);
  clock.Set(100);
  EXPECT_EQ(clock.NowNs(), 100);
}

TEST(Deadline, ExpiresAtItsInstant) {
  ManualClock clock(1000);
  const Deadline deadline = Deadline::After(clock, 50);
  EXPECT_EQ(deadline.RemainingNs(clock), 50);
  clock.Advance(49);
  EXPECT_FALSE(deadline.Expired(clock));
  EXPECT_EQ(deadline.RemainingNs(clock), 1);
  clock.Advance(1);
  EXPECT_TRUE(deadline.Expired(clock));
  EXPECT_EQ(deadline.RemainingNs(clock), 0);
  clock.Advance(1000);
  EXPECT_TRUE(deadline.Expired(clock));
  EXPECT_EQ(deadline.RemainingNs(clock), 0);
}

TEST(Deadline, NotPositiveHasExpired) {
  ManualClock clock(1000);
  EXPECT_TRUE(Deadline::After(clock, 0).Expired(clock));
  EXPECT_TRUE(Deadline::After(clock, -7).Expired(clock));
  EXPECT_TRUE(Deadline::After(clock, INT64_MIN).Expired(clock));
}

TEST(Deadline, NeverDoesNotExpire) {
  ManualClock clock(INT64_MAX);
  EXPECT_FALSE(Deadline::Never().Expired(clock));
  EXPECT_EQ(Deadline::Never().RemainingNs(clock), INT64_MAX);
  EXPECT_EQ(Deadline::Never().PollTimeoutMs(clock), -1);
  EXPECT_TRUE(Deadline::After(clock, 1).never()) << "saturates";
}

TEST(Deadline, EarlierPicksTheFirst) {
  ManualClock clock(0);
  const Deadline soon = Deadline::After(clock, 1);
  EXPECT_EQ(Earlier(soon, Deadline::Never()), soon);
  EXPECT_EQ(Earlier(Deadline::Never(), soon), soon);
  EXPECT_LT(soon, Deadline::After(clock, 2));
}

TEST(Deadline, PollTimeoutRoundsUp) {
  ManualClock clock(0);
  EXPECT_EQ(Deadline::After(clock, 0).PollTimeoutMs(clock), 0);
  EXPECT_EQ(Deadline::After(clock, 1).PollTimeoutMs(clock), 1);
  EXPECT_EQ(Deadline::After(clock, kNsPerMs).PollTimeoutMs(clock), 1);
  EXPECT_EQ(Deadline::After(clock, kNsPerMs + 1).PollTimeoutMs(clock), 2);
  EXPECT_EQ(Deadline{INT64_MAX - 1}.PollTimeoutMs(clock), INT_MAX);
}

}  // namespace
}  // namespace gradwire
