#include "transports/control/liveness.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

constexpr LivenessOptions kOptions{.period_ns = 20, .bound_ns = 100};

TEST(Liveness, BeatsOncePerPeriod) {
  Liveness live(kOptions, {1}, 0);
  EXPECT_TRUE(live.Advance(0).heartbeat_due);
  EXPECT_FALSE(live.Advance(19).heartbeat_due);
  EXPECT_TRUE(live.Advance(20).heartbeat_due);
}

TEST(Liveness, NamesTheSilentOnceAndHowLong) {
  Liveness live(kOptions, {1, 2}, 0);
  for (int64_t now = 0; now < 100; now += 10) {
    live.Heard(2, now);
    EXPECT_TRUE(live.Advance(now).silent.empty()) << now;
  }
  const Liveness::Tick tick = live.Advance(100);
  ASSERT_EQ(tick.silent.size(), 1u);
  EXPECT_EQ(tick.silent[0].peer, 1);
  EXPECT_EQ(tick.silent[0].silent_ns, 100);
  EXPECT_TRUE(live.Advance(110).silent.empty());
}

TEST(Liveness, ForgottenPeersMayBeSilent) {
  Liveness live(kOptions, {1}, 0);
  live.Forget(1);
  for (int64_t now = 0; now < 500; now += 20) EXPECT_TRUE(live.Advance(now).silent.empty());
}

TEST(Liveness, WhoStoodStillAccusesNobody) {
  Liveness live(kOptions, {1}, 0);
  live.Advance(0);
  EXPECT_TRUE(live.Advance(10'000).silent.empty());
  // From then on the peer's silence counts again.
  bool accused = false;
  int64_t now = 10'000;
  while (!accused && now < 20'000) {
    now = live.NextNs();
    accused = !live.Advance(now).silent.empty();
  }
  EXPECT_EQ(now, 10'100);
}

TEST(Liveness, PunctualCallerNeverLooksAsIfItStoodStill) {
  Liveness live({.period_ns = 80, .bound_ns = 100}, {1}, 0);
  int64_t now = 0;
  while (live.Advance(now).silent.empty()) {
    ASSERT_LT(now, 1000);
    ASSERT_GT(live.NextNs(), now);
    now = live.NextNs();
  }
  EXPECT_EQ(now, 100);
}

}  // namespace
}  // namespace gradwire
