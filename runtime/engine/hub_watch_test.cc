#include "runtime/engine/hub_watch.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

constexpr int64_t kPauseNs = 500;

TEST(HubWatch, CountsFromTheLastChange) {
  HubWatch hub(kPauseNs);
  hub.Hear({.looks = 1}, 100);
  EXPECT_EQ(hub.StillSince(200), 100);
  hub.Hear({.looks = 1}, 300);
  EXPECT_EQ(hub.StillSince(400), 100) << "a sign of life that says nothing new";
  hub.Hear({.looks = 2}, 500);
  EXPECT_EQ(hub.StillSince(600), 500);
  for (int64_t now = 1'000; now <= 10'000; now += kPauseNs)
    EXPECT_EQ(hub.StillSince(now), 500) << now;
}

TEST(HubWatch, BeginsAnewAfterAPauseOfItsOwn) {
  HubWatch hub(kPauseNs);
  hub.Hear({.looks = 1}, 100);
  EXPECT_EQ(hub.StillSince(200), 100);
  EXPECT_EQ(hub.StillSince(200 + kPauseNs), 100);
  const int64_t after = 200 + kPauseNs + kPauseNs + 1;
  EXPECT_EQ(hub.StillSince(after), after);
  EXPECT_EQ(hub.StillSince(after + 1), after);
}

}  // namespace
}  // namespace gradwire
