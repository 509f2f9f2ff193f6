#include "cli/report/plot_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace gradwire {
namespace {

TEST(PlotScale, GoesFromOneEndToTheOther) {
  const PlotScale scale({.label = "", .low = 10.0, .high = 30.0}, {});
  EXPECT_DOUBLE_EQ(scale.Position(10), 0);
  EXPECT_DOUBLE_EQ(scale.Position(25), 0.75);
  EXPECT_DOUBLE_EQ(scale.Position(40), 1.5);
  const PlotScale powers({.label = "", .logarithmic = true, .low = 1.0, .high = 100.0}, {});
  EXPECT_DOUBLE_EQ(powers.Position(10), 0.5);
  EXPECT_LT(powers.Position(0), 0) << "no logarithm";
}

TEST(PlotScale, FitsItsValues) {
  const PlotScale positive({}, {3, 7});
  EXPECT_EQ(positive.low(), 0);
  EXPECT_EQ(positive.high(), 7);
  EXPECT_EQ(PlotScale({}, {-3, 7}).low(), -3);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const PlotScale powers({.logarithmic = true}, {0, -1, nan, 4, 64});
  EXPECT_EQ(powers.low(), 4);
  EXPECT_EQ(powers.high(), 64);
}

TEST(PlotScale, IsNeverEmpty) {
  for (const bool logarithmic : {false, true}) {
    for (const std::vector<double>& values : {std::vector<double>{}, {0, 0}, {5, 5}, {-2}}) {
      const PlotScale scale({.label = "", .logarithmic = logarithmic}, values);
      EXPECT_LT(scale.low(), scale.high());
      EXPECT_FALSE(scale.Ticks().empty());
    }
  }
}

TEST(PlotScale, HasFewTicksWhateverItsEnds) {
  for (const bool logarithmic : {false, true}) {
    for (const auto& [low, high] : {std::pair{-1e17, -1e17},
                                    {1e16, 1e16 + 2},
                                    {-1e308, 1e308},
                                    {1e-310, 1e308},
                                    {1.0, 1.7e308},
                                    {5.0, 4.0}}) {
      const PlotScale scale({.logarithmic = logarithmic, .low = low, .high = high}, {});
      EXPECT_LT(scale.low(), scale.high()) << low << " " << high;
      EXPECT_LE(scale.Ticks().size(), 13u) << low << " " << high;
      for (const double tick : scale.Ticks()) EXPECT_TRUE(std::isfinite(tick));
    }
  }
}

TEST(PlotScale, HasRoundTicks) {
  EXPECT_EQ(PlotScale({.low = 0.0, .high = 60.0}, {}).Ticks(),
            (std::vector<double>{0, 10, 20, 30, 40, 50, 60}));
  EXPECT_EQ(PlotScale({.low = 74.5, .high = 87.0}, {}).Ticks(), (std::vector<double>{75, 80, 85}));
  EXPECT_EQ(PlotScale({.logarithmic = true, .low = 3.0, .high = 60.0}, {}).Ticks(),
            (std::vector<double>{5, 10, 20, 50}));
  EXPECT_EQ(PlotScale({.logarithmic = true, .low = 1.0, .high = 1e6}, {}).Ticks().size(), 7u);
  EXPECT_EQ(PlotScale({.logarithmic = true, .low = 1.0, .high = 1e20}, {}).Ticks().size(), 11u);
}

// One size alone, and times that hardly differ.
TEST(PlotScale, HasTicksHoweverNarrowItIs) {
  const PlotScale one({.logarithmic = true}, {1024});
  EXPECT_DOUBLE_EQ(one.Position(1024), 0.5);
  EXPECT_EQ(one.Ticks(), (std::vector<double>{1000, 1500, 2000}));
  EXPECT_EQ(PlotScale({.logarithmic = true}, {320, 410}).Ticks(),
            (std::vector<double>{320, 340, 360, 380, 400}));
}

TEST(PlotScale, HasNoNegativeZero) {
  EXPECT_EQ(TickText(PlotScale({.low = 0.0, .high = 60.0}, {}).Ticks().front()), "0");
}

TEST(TickText, IsShort) {
  EXPECT_EQ(TickText(0), "0");
  EXPECT_EQ(TickText(0.25), "0.25");
  EXPECT_EQ(TickText(999), "999");
  EXPECT_EQ(TickText(1000), "1k");
  EXPECT_EQ(TickText(-2.5e6), "-2.5M");
  EXPECT_EQ(TickText(1e9), "1G");
}

}  // namespace
}  // namespace gradwire
