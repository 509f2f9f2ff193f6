#include "runtime/controller/trial.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "runtime/controller/plan.h"

namespace gradwire {
namespace {

constexpr double kPlenty = 1e12;

bool IsB(uint16_t index) { return IsOfB(index, kInARow); }
bool IsBToSettle(uint16_t index) { return IsOfB(index, kInARowToSettle); }

// Of the first step of either plan in a row over the others.
struct Settling {
  double a = 1, b = 1;
};

// Times of both plans with noise of this deviation, until there is a verdict.
Verdict Run(double ratio, double noise, uint64_t seed, Trial::Options options,
            Settling first = {}) {
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> factor(0, noise);
  options.budget_us = kPlenty;
  Trial trial(options);
  for (uint16_t i = 0;; ++i) {
    const bool is_b = IsOfB(i, trial.in_a_row());
    const double settling = trial.Tells(i) ? 1 : is_b ? first.b : first.a;
    const double us = 1000 * (is_b ? ratio : 1) * settling * factor(random);
    const Verdict verdict = trial.Add(i, us);
    if (verdict != Verdict::kOpen) return verdict;
  }
}

double ShareKept(double ratio, double noise, const Trial::Options& options = {},
                 Settling first = {}) {
  constexpr int kRuns = 2000;
  int kept = 0;
  for (int seed = 0; seed < kRuns; ++seed)
    kept += Run(ratio, noise, seed, options, first) == Verdict::kKeep ? 1 : 0;
  return static_cast<double>(kept) / kRuns;
}

TEST(Trial, KeepsWhatIsFasterAndHardlyWhatIsNot) {
  for (const double noise : {0.05, 0.10}) {
    EXPECT_LE(ShareKept(1.0, noise), 0.05) << noise;
    EXPECT_LE(ShareKept(1.05, noise), 0.01) << noise;
    EXPECT_GE(ShareKept(0.85, noise), 0.95) << noise;
  }
  EXPECT_GE(ShareKept(0.90, 0.05), 0.95);
  EXPECT_GE(ShareKept(0.90, 0.10), 0.80);
}

TEST(Trial, WhatIsLighterMayBeEqual) {
  EXPECT_GE(ShareKept(1.0, 0.02, {.rule = kMayBeEqual}), 0.5);
  EXPECT_LE(ShareKept(1.06, 0.02, {.rule = kMayBeEqual}), 0.05);
}

// As those of none, which send along what a codec has kept back, and of that codec, which allocates
// anew.
TEST(Trial, WhereFirstStepsTakeLongerOnlyTheOthersCount) {
  const Trial::Options options = {.settles = true};
  for (const Settling first : {Settling{},
                               {.a = 1.45, .b = 1.1},
                               {.a = 1.1, .b = 1.45},
                               {.a = 2.5, .b = 1},
                               {.a = 1, .b = 2.5}}) {
    for (const double noise : {0.05, 0.10}) {
      EXPECT_LE(ShareKept(1.0, noise, options, first), 0.05) << first.a << " " << first.b;
      EXPECT_LE(ShareKept(1.05, noise, options, first), 0.01) << first.a << " " << first.b;
      EXPECT_GE(ShareKept(0.85, noise, options, first), 0.9) << first.a << " " << first.b;
    }
    EXPECT_GE(ShareKept(0.90, 0.05, options, first), 0.95) << first.a << " " << first.b;
    EXPECT_GE(ShareKept(0.90, 0.10, options, first), 0.65) << first.a << " " << first.b;
  }
}

TEST(Trial, FirstStepsThatTakeLongerArePaidFor) {
  Trial trial({.rule = {-1, 1}, .settles = true, .budget_us = 1500});
  for (uint16_t i = 0; i < 15; ++i) {
    const double us = trial.Tells(i) ? 1000 : IsBToSettle(i) ? 1300 : 1600;
    EXPECT_EQ(trial.Add(i, us), Verdict::kOpen) << i;
  }
  EXPECT_NEAR(trial.excess_us(), 900, 1e-9);
  EXPECT_EQ(trial.Add(15, 1000), Verdict::kReject);
}

// A rank was late in a step that tells.
TEST(Trial, ABlockWithALateStepThatTellsDoesNotCount) {
  Trial trial({.settles = true, .budget_us = kPlenty});
  for (uint16_t i = 0; i < 24; ++i)
    EXPECT_EQ(trial.Add(i, i == 0 || i == 11 || i == 23 ? 2000 : 1000), Verdict::kOpen) << i;
  EXPECT_EQ(trial.blocks(), 0);
}

// Each of them says that B takes 0.83 of A's time, but steps of one plan differ by more.
TEST(Trial, TwoBlocksThatAgreeProveNothingWhereStepsScatter) {
  Trial trial({.settles = true, .budget_us = kPlenty});
  const double block_us[] = {1000, 1300, 1000, 1050, 900, 720, 1000, 900};
  for (uint16_t i = 0; i < 16; ++i) EXPECT_EQ(trial.Add(i, block_us[i % 8]), Verdict::kOpen) << i;
  EXPECT_EQ(trial.blocks(), 2) << "they are not disturbed";
  EXPECT_LT(trial.mean(), -0.1);
}

TEST(Trial, ADriftOfTheMachineCancelsOut) {
  Trial trial({.budget_us = kPlenty});
  double us = 1000;
  for (uint16_t i = 0; i < 12; ++i) {
    us *= 1.05;
    if (trial.Add(i, us) != Verdict::kOpen) break;
  }
  EXPECT_NEAR(trial.mean(), 0, 1e-9);
}

// As a comment in trial.h says: steps of B lie a step and a third behind those of A.
TEST(Trial, WherePlansSettleNearlyAllOfADriftCancelsOut) {
  Trial trial({.rule = {-1, 1}, .settles = true, .budget_us = kPlenty});
  double us = 1000;
  for (uint16_t i = 0; i < 24; ++i) {
    us *= 1.01;
    EXPECT_EQ(trial.Add(i, us), Verdict::kOpen);
  }
  EXPECT_NEAR(trial.mean(), 4.0 / 3 * std::log(1.01), 1e-9);
}

// What is tried again and again wins by chance.
TEST(Trial, WhatHasLostBeforeTakesMoreBlocks) {
  for (const int lost : {0, 1, 4, 20}) {
    for (const bool settles : {false, true}) {
      Trial trial({.settles = settles, .lost_before = lost, .budget_us = kPlenty});
      uint16_t i = 0;
      while (trial.Add(i, IsOfB(i, trial.in_a_row()) ? 900 : 1000) == Verdict::kOpen) ++i;
      EXPECT_LT(trial.mean(), 0);
      const int of_four_steps = std::min(3 + lost, 12);
      EXPECT_EQ(trial.blocks(), settles ? (of_four_steps + 1) / 2 : of_four_steps) << lost;
    }
  }
}

TEST(Trial, StopsAtOnceWhereBIsFarSlower) {
  Trial trial({.budget_us = kPlenty});
  EXPECT_EQ(trial.Add(0, 1000), Verdict::kOpen);
  EXPECT_EQ(trial.Add(1, 1600), Verdict::kOpen);
  EXPECT_EQ(trial.Add(2, 1600), Verdict::kReject);
  EXPECT_EQ(trial.excess_us(), 1200) << "its price counts";
}

TEST(Trial, StopsWhenItsBudgetIsSpent) {
  Trial trial({.rule = {-1, 1}, .min_blocks = 100, .budget_us = 50});
  Verdict verdict = Verdict::kOpen;
  uint16_t i = 0;
  for (; verdict == Verdict::kOpen && i < 100; ++i) verdict = trial.Add(i, IsB(i) ? 1010 : 1000);
  EXPECT_EQ(verdict, Verdict::kReject);
  EXPECT_EQ(i, 12);  // 20 a block
}

TEST(Trial, ABlockWithAStepMissingDoesNotCount) {
  Trial trial({.budget_us = kPlenty});
  for (const uint16_t i : {0, 1, 3, 4, 5, 6, 7}) EXPECT_EQ(trial.Add(i, 1000), Verdict::kOpen);
  EXPECT_EQ(trial.blocks(), 1);
}

TEST(Trial, ABlockOfEightWithAStepMissingDoesNotCount) {
  for (const uint16_t missing : {0, 1, 2, 5, 6, 7}) {
    Trial trial({.settles = true, .budget_us = kPlenty});
    for (uint16_t i = 0; i < 16; ++i) {
      if (i == missing) continue;
      EXPECT_EQ(trial.Add(i, 1000), Verdict::kOpen) << i;
    }
    EXPECT_EQ(trial.blocks(), 1) << missing;
  }
}

TEST(Trial, EndsWhereEveryBlockOfEightHasAStepMissing) {
  Trial trial({.settles = true, .budget_us = kPlenty});
  uint16_t i = 0;
  while (i < 100 && trial.Add(i, 1000) == Verdict::kOpen) i += i % 8 == 3 ? 2 : 1;
  EXPECT_LT(i, 57);
  EXPECT_EQ(trial.blocks(), 0);
}

// Late in the last step of one block and the first of the next: twice as long as B's took.
TEST(Trial, ABlockWithALateStepDoesNotCount) {
  Trial trial({.min_blocks = 2, .budget_us = kPlenty});
  for (uint16_t i = 0; i < 8; ++i) {
    const bool is_late = i == 3 || i == 4;
    EXPECT_EQ(trial.Add(i, is_late ? 2000 : 1000), Verdict::kOpen) << i;
  }
  EXPECT_EQ(trial.blocks(), 0);
  for (uint16_t i = 8; i < 15; ++i)
    EXPECT_EQ(trial.Add(i, IsB(i) ? 900 : 1000), Verdict::kOpen) << i;
  EXPECT_EQ(trial.Add(15, 1000), Verdict::kKeep);
}

// As where a job trains two networks by turns.
TEST(Trial, StepsOfTheJobThatAlternateCount) {
  for (const bool settles : {false, true}) {
    for (const int longer : {0, 1}) {
      Trial trial({.settles = settles, .budget_us = kPlenty});
      Verdict verdict = Verdict::kOpen;
      for (uint16_t i = 0; verdict == Verdict::kOpen && i < 50; ++i) {
        const bool is_b = IsOfB(i, trial.in_a_row());
        verdict = trial.Add(i, (is_b ? 900 : 1000) * (i % 2 == longer ? 3 : 1));
      }
      EXPECT_EQ(verdict, Verdict::kKeep) << longer;
      EXPECT_EQ(trial.blocks(), settles ? 2 : 3) << longer;
    }
  }
}

TEST(Trial, EndsWhereEveryBlockHasAStepMissing) {
  for (const int whole : {0, 3}) {
    Trial trial({.rule = {-1, 1}, .budget_us = kPlenty});
    uint16_t i = 0;
    while (i < 100 && trial.Add(i, 1000) == Verdict::kOpen)
      i += i >= 4 * whole && i % 4 == 2 ? 2 : 1;
    EXPECT_LT(i, 50);
    EXPECT_EQ(trial.blocks(), whole);
  }
}

TEST(Trial, WhatIsThereOfABlockIsPaidFor) {
  Trial trial({.rule = {-1, 1}, .budget_us = 500});
  EXPECT_EQ(trial.Add(0, 1000), Verdict::kOpen);
  EXPECT_EQ(trial.Add(1, 1400), Verdict::kOpen);
  EXPECT_EQ(trial.Add(4, 1000), Verdict::kOpen);
  EXPECT_EQ(trial.excess_us(), 400);
}

// Late by more than B takes longer in the next block.
TEST(Trial, ALateStepOfAIsNoBudgetForB) {
  Trial trial({.min_blocks = 3, .budget_us = 500});
  for (uint16_t i = 0; i < 4; ++i)
    EXPECT_EQ(trial.Add(i, i == 0 ? 2000 : 1000), Verdict::kOpen) << i;
  for (uint16_t i = 4; i < 6; ++i)
    EXPECT_EQ(trial.Add(i, i == 4 ? 1000 : 1300), Verdict::kOpen) << i;
  EXPECT_EQ(trial.Add(6, 1300), Verdict::kReject);
}

// All of a long row would cost half as much again.
TEST(Trial, StopsWithinABlockWhenItsBudgetIsSpent) {
  Trial trial({.settles = true, .budget_us = 500});
  for (uint16_t i = 0; i < 4; ++i)
    EXPECT_EQ(trial.Add(i, IsBToSettle(i) ? 1300 : 1000), Verdict::kOpen) << i;
  EXPECT_EQ(trial.Add(4, 1300), Verdict::kReject);
  EXPECT_NEAR(trial.excess_us(), 900, 1e-9);
}

// One late rank makes no plan slow, neither in its time nor in what is left.
TEST(Trial, ALateStepDoesNotSpendTheBudgetWithinABlock) {
  Trial trial({.budget_us = 1000});
  EXPECT_EQ(trial.Add(0, 1000), Verdict::kOpen);
  EXPECT_EQ(trial.Add(1, 1000), Verdict::kOpen);
  EXPECT_EQ(trial.Add(2, 2400), Verdict::kOpen);
  EXPECT_EQ(trial.blocks(), 0);
}

TEST(Trial, StopsAfterOneBlockWhereBIsClearlySlower) {
  for (const double ratio : {1.1, 1.2}) {
    for (const bool may_end : {false, true}) {
      Trial trial({.may_end_after_one = may_end, .budget_us = kPlenty});
      for (uint16_t i = 0; i < 3; ++i) trial.Add(i, IsB(i) ? 1000 * ratio : 1000);
      const bool ends = may_end && ratio > 1.15;
      EXPECT_EQ(trial.Add(3, 1000), ends ? Verdict::kReject : Verdict::kOpen) << ratio;
    }
  }
}

TEST(Trial, EndsWhereEveryBlockHasALateStep) {
  Trial trial({.budget_us = kPlenty});
  uint16_t i = 0;
  while (trial.Add(i, i % 4 == 0 ? 2000 : 1000) == Verdict::kOpen) ++i;
  EXPECT_LT(i, 50);
  EXPECT_EQ(trial.blocks(), 0);
}

// 3 % faster, as far as anybody can tell.
TEST(Trial, WhatStaysOpenGoesToTheLighterPlan) {
  for (const bool is_lighter : {false, true}) {
    Trial trial({.rule = {-0.5, 0.5}, .b_is_lighter = is_lighter, .budget_us = kPlenty});
    Verdict verdict = Verdict::kOpen;
    uint16_t i = 0;
    for (; verdict == Verdict::kOpen && i < 100; ++i) verdict = trial.Add(i, IsB(i) ? 970 : 1000);
    EXPECT_EQ(i, 48);
    EXPECT_EQ(verdict, is_lighter ? Verdict::kKeep : Verdict::kReject);
  }
  // It may be the slower one by chance, but hardly by much; and not twice.
  for (const bool settles : {false, true}) {
    for (const double noise : {0.05, 0.10}) {
      const Trial::Options options = {.settles = settles, .b_is_lighter = true};
      EXPECT_LE(ShareKept(1.0, noise, options), 0.4) << noise;
      EXPECT_LE(ShareKept(1.05, noise, options), 0.06) << noise;
      EXPECT_LE(ShareKept(1.0, noise, {.b_is_lighter = true, .lost_before = 4}), 0.05) << noise;
    }
  }
  Trial slower({.rule = {-0.5, 0.5}, .b_is_lighter = true, .budget_us = kPlenty});
  Verdict verdict = Verdict::kOpen;
  for (uint16_t i = 0; verdict == Verdict::kOpen && i < 100; ++i)
    verdict = slower.Add(i, IsB(i) ? 1001 : 1000);
  EXPECT_EQ(verdict, Verdict::kReject);
}

TEST(Trial, EndsSomeTime) {
  int steps = 0;
  Trial trial({.rule = {-1, 1}, .budget_us = kPlenty});
  while (trial.Add(static_cast<uint16_t>(steps), 1000) == Verdict::kOpen) ++steps;
  EXPECT_LT(steps, 50);
}

}  // namespace
}  // namespace gradwire
