#include "cli/train/paired_ratio.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace gradwire {
namespace {

// What drifts between the pairs is in both of a pair.
TEST(RatioOf, DriftOfBothCancels) {
  const std::vector<double> base = {10, 20, 40, 80}, times = {5, 10, 20, 40};
  const PairedRatio ratio = RatioOf(times, base, 1);
  EXPECT_DOUBLE_EQ(ratio.value, 0.5);
  ASSERT_TRUE(ratio.interval);
  EXPECT_DOUBLE_EQ(ratio.interval->low, 0.5);
  EXPECT_DOUBLE_EQ(ratio.interval->high, 0.5);
}

TEST(RatioOf, TwiceAndHalfIsOne) {
  EXPECT_DOUBLE_EQ(RatioOf(std::vector<double>{2, 5}, std::vector<double>{1, 10}, 1).value, 1);
}

TEST(RatioOf, OnePairHasNoInterval) {
  const PairedRatio ratio = RatioOf(std::vector<double>{3}, std::vector<double>{2}, 1);
  EXPECT_DOUBLE_EQ(ratio.value, 1.5);
  EXPECT_FALSE(ratio.interval);
}

// Logarithms of mean 0 and standard deviation 0.1: for so many pairs the interval is the normal
// one.
TEST(RatioOf, IntervalIsThatOfTheMean) {
  constexpr int kPairs = 400;
  std::vector<double> times, base(kPairs, 1);
  for (int i = 0; i < kPairs; ++i) times.push_back(std::exp(i % 2 == 0 ? 0.1 : -0.1));
  const PairedRatio ratio = RatioOf(times, base, 1);
  const double half = 1.96 * 0.1 / std::sqrt(kPairs);
  EXPECT_NEAR(std::log(ratio.value), 0, 1e-12);
  ASSERT_TRUE(ratio.interval);
  EXPECT_NEAR(std::log(ratio.interval->low), -half, 0.1 * half);
  EXPECT_NEAR(std::log(ratio.interval->high), half, 0.1 * half);
}

TEST(RatioOf, TheSeedFixesTheInterval) {
  const std::vector<double> times = {1.1, 0.9, 1.3}, base = {1, 1, 1};
  EXPECT_EQ(RatioOf(times, base, 5).interval->low, RatioOf(times, base, 5).interval->low);
}

}  // namespace
}  // namespace gradwire
