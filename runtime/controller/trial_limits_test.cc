#include "runtime/controller/trial_limits.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace gradwire {
namespace {

const Plan kLost = {2, 1}, kOther = {1, 1};

TEST(PlanBans, EndAfterAWhileAndAreRemembered) {
  PlanBans bans;
  EXPECT_FALSE(bans.IsBanned(kLost, 0));
  EXPECT_EQ(bans.TimesLost(kLost), 0);
  bans.Ban(kLost, 100);
  EXPECT_TRUE(bans.IsBanned(kLost, 107));
  EXPECT_FALSE(bans.IsBanned(kLost, 108));
  EXPECT_EQ(bans.TimesLost(kLost), 1);
  EXPECT_FALSE(bans.IsBanned(kOther, 107));
  EXPECT_EQ(bans.TimesLost(kOther), 0);
}

TEST(PlanBans, LastTwiceAsLongEachTimeSixTimes) {
  PlanBans bans;
  int64_t window = 0;
  for (const int windows : {8, 16, 32, 64, 128, 256, 512, 512}) {
    bans.Ban(kLost, window);
    window += windows;
    EXPECT_TRUE(bans.IsBanned(kLost, window - 1)) << windows;
    EXPECT_FALSE(bans.IsBanned(kLost, window)) << windows;
  }
  EXPECT_EQ(bans.TimesLost(kLost), 8);
  EXPECT_EQ(bans.entries().size(), 1u);
}

TEST(PlanBans, AreForgottenLongAfterTheirEnd) {
  PlanBans bans;
  bans.Ban(kLost, 0);
  bans.Ban(kOther, 8 + 64);
  EXPECT_EQ(bans.TimesLost(kLost), 1);
  bans.Ban(kOther, 8 + 64 + 1);
  EXPECT_EQ(bans.TimesLost(kLost), 0);
  EXPECT_EQ(bans.TimesLost(kOther), 2);
}

TEST(PlanBans, GoOnFromWhatWasSaved) {
  PlanBans bans;
  bans.Add({.plan = kLost, .until_window = 5, .times = 2});
  EXPECT_TRUE(bans.IsBanned(kLost, 4));
  bans.Ban(kLost, 5);
  EXPECT_TRUE(bans.IsBanned(kLost, 5 + 31));
  EXPECT_FALSE(bans.IsBanned(kLost, 5 + 32));
}

TEST(TrialBudget, IsAFewStepsAndAShareOfTheTime) {
  TrialBudget budget;
  EXPECT_DOUBLE_EQ(budget.Left(100), 300);
  EXPECT_DOUBLE_EQ(budget.LeftToExplore(100), 200);
  for (int i = 0; i < 100; ++i) budget.PassStep(100, TrialBudget::Share::kUsual);
  EXPECT_NEAR(budget.Left(100), 360, 1e-6);
  budget.Spend(210);
  EXPECT_NEAR(budget.Left(100), 150, 1e-6);
  EXPECT_EQ(budget.LeftToExplore(100), 0);
  budget.Spend(1000);
  EXPECT_EQ(budget.Left(100), 0);
  EXPECT_EQ(budget.spent_us(), 1210);
}

TEST(TrialBudget, IsALargerShareWhereTrialsMakeNothingSlowerThanNone) {
  TrialBudget budget;
  for (int i = 0; i < 100; ++i) budget.PassStep(100, TrialBudget::Share::kLarger);
  EXPECT_NEAR(budget.Left(100), 500, 1e-6);
}

// Any 500 steps are to be as fast as those of none: what was not spent in 10,000 is not spent in
// them.
TEST(TrialBudget, IsSavedUpForFiveHundredSteps) {
  TrialBudget budget;
  for (int i = 0; i < 10000; ++i) budget.PassStep(100, TrialBudget::Share::kLarger);
  EXPECT_NEAR(budget.Left(100), 300 + 1000, 1e-6);
  budget.Spend(50);
  EXPECT_NEAR(budget.Left(100), 300 + 950, 1e-6);
  budget.PassStep(100, TrialBudget::Share::kUsual);
  EXPECT_NEAR(budget.Left(100), 300 + 300, 1e-6) << "none is no longer far slower";
}

// It would end after one block.
TEST(TrialBudget, IsNotSpentOnATrialThatTellsNothing) {
  TrialBudget budget;
  budget.Spend(200);
  EXPECT_DOUBLE_EQ(budget.Left(100), 100);
  budget.Spend(1);
  EXPECT_EQ(budget.Left(100), 0);
}

TEST(TrialBudget, WhatWasSpentInStepsIsPaidBackInShorterOnes) {
  TrialBudget budget;
  for (int i = 0; i < 500; ++i) budget.PassStep(2000, TrialBudget::Share::kUsual);
  budget.Spend(6000);
  budget.Rescale(0.5);
  EXPECT_DOUBLE_EQ(budget.spent_us(), 6000) << "all of it is within the share of the time";
  budget.Spend(200);
  budget.Rescale(2);
  EXPECT_DOUBLE_EQ(budget.spent_us(), 6200);
  budget.Rescale(0.5);
  EXPECT_DOUBLE_EQ(budget.spent_us(), 6100);
}

}  // namespace
}  // namespace gradwire
