#include "runtime/engine/departures.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

constexpr int64_t kSilenceNs = 10 * kNsPerSecond;
constexpr int64_t kLeftNs = Departures::kLeftNs;

Departures Make(bool within_host) {
  return Departures({.world_size = 3, .within_host = within_host, .silence_ns = kSilenceNs});
}

TEST(Departures, ARankThatIsThroughHasNotLeft) {
  Departures departures = Make(true);
  departures.HearThrough(1);
  EXPECT_TRUE(departures.is_through(1));
  EXPECT_FALSE(departures.has_left(1));
  EXPECT_FALSE(departures.IsOverdue(1, INT64_MAX)) << "it may be slow, or be lost";
  departures.HearBye(2);
  EXPECT_TRUE(departures.has_left(2));
  EXPECT_TRUE(departures.is_through(2));
  EXPECT_FALSE(departures.all_through());
  departures.HearThrough(0);
  EXPECT_TRUE(departures.all_through());
}

TEST(Departures, CountWhoHasLeftOnce) {
  Departures departures = Make(true);
  departures.HearBye(1);
  departures.HearBye(1);
  EXPECT_EQ(departures.left_ranks(), 1);
}

TEST(Departures, BytesWithinAHostAreSoonThere) {
  Departures departures = Make(true);
  departures.HearBye(1);
  EXPECT_FALSE(departures.IsOverdue(1, kLeftNs));
  EXPECT_TRUE(departures.IsOverdue(1, kLeftNs + 1));
  EXPECT_FALSE(departures.IsOverdue(2, kLeftNs + 1));
}

TEST(Departures, ANetworkMayStallUntilTheConnectionHasEnded) {
  Departures departures = Make(false);
  departures.HearBye(1);
  departures.HearBye(2);
  EXPECT_FALSE(departures.IsOverdue(1, kSilenceNs));
  EXPECT_TRUE(departures.IsOverdue(1, kSilenceNs + 1));
  departures.NoteLost(1, Status(gwPeerLost, "closed"), 5);
  EXPECT_FALSE(departures.IsOverdue(1, kLeftNs));
  EXPECT_TRUE(departures.IsOverdue(1, kLeftNs + 1));
  EXPECT_FALSE(departures.IsOverdue(2, kLeftNs + 1)) << "another one's connection";
}

TEST(Departures, TheHubServesTheOthersForAWhile) {
  Departures departures = Make(true);
  EXPECT_FALSE(departures.IsHubGone(INT64_MAX));
  departures.HearBye(0);
  EXPECT_FALSE(departures.IsHubGone(6 * kNsPerSecond));
  EXPECT_TRUE(departures.IsHubGone(6 * kNsPerSecond + 1));
}

TEST(Departures, ByeExplainsALoss) {
  Departures departures = Make(false);
  EXPECT_EQ(departures.FirstUnexplainedLoss(), nullptr);
  departures.NoteLost(1, Status(gwPeerLost, "closed"), 5);
  departures.NoteLost(2, Status(gwSystemError, "no descriptors"), 6);
  Departures::Loss* loss = departures.FirstUnexplainedLoss();
  ASSERT_NE(loss, nullptr);
  EXPECT_EQ(loss->peer, 1);
  EXPECT_EQ(loss->ns, 5);
  loss->accused = true;
  EXPECT_TRUE(departures.FirstUnexplainedLoss()->accused);
  departures.HearBye(1);
  loss = departures.FirstUnexplainedLoss();
  ASSERT_NE(loss, nullptr);
  EXPECT_EQ(loss->peer, 2);
  EXPECT_EQ(loss->cause.code(), gwSystemError);
  EXPECT_FALSE(loss->accused);
  departures.HearBye(2);
  EXPECT_EQ(departures.FirstUnexplainedLoss(), nullptr);
}

}  // namespace
}  // namespace gradwire
