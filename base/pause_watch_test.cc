#include "base/pause_watch.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace gradwire {
namespace {

constexpr int64_t kPauseNs = 500;

TEST(PauseWatch, SeesAGapBetweenTwoLooksOnce) {
  PauseWatch watch(kPauseNs, 100);
  EXPECT_FALSE(watch.HasPaused(100 + kPauseNs));
  EXPECT_FALSE(watch.HasPaused(100 + 2 * kPauseNs));
  EXPECT_TRUE(watch.HasPaused(101 + 3 * kPauseNs));
  EXPECT_EQ(watch.looked_ns(), 101 + 3 * kPauseNs);
  EXPECT_FALSE(watch.HasPaused(101 + 3 * kPauseNs));
}

TEST(PauseWatch, MayBeToldThatNoGapIsTooLong) {
  PauseWatch watch(INT64_MAX);
  EXPECT_FALSE(watch.HasPaused(INT64_MAX));
}

}  // namespace
}  // namespace gradwire
