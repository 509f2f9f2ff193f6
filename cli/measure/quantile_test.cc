#include "cli/measure/quantile.h"

#include <gtest/gtest.h>

#include <vector>

namespace gradwire {
namespace {

TEST(Quantile, LiesBetweenTheNearestValues) {
  const std::vector<double> values = {1, 2, 4, 8};
  EXPECT_EQ(Quantile(values, 0), 1);
  EXPECT_EQ(Quantile(values, 1), 8);
  EXPECT_EQ(Quantile(values, 0.5), 3);
  EXPECT_DOUBLE_EQ(Quantile(values, 0.9), 6.8);
  EXPECT_EQ(Quantile(std::vector<double>{7}, 0.3), 7);
}

}  // namespace
}  // namespace gradwire
