#include "runtime/controller/step_gaps.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

constexpr int64_t kInside = 1000;

TEST(StepGaps, APauseCountsAsAUsualGap) {
  StepGaps gaps;
  for (int step = 0; step < 100; ++step) {
    const bool is_pause = step % 5 == 4;
    EXPECT_EQ(gaps.OfStep(is_pause ? 50 * kInside : 40, kInside), 40) << step;
  }
}

TEST(StepGaps, WhatVariesIsPartOfTheStep) {
  StepGaps gaps;
  for (int step = 0; step < 100; ++step) {
    const int64_t shorter_than_a_step = step % 5 == 4 ? kInside : 10;
    EXPECT_EQ(gaps.OfStep(shorter_than_a_step, kInside), shorter_than_a_step) << step;
    EXPECT_EQ(StepGaps().OfStep(50 * kInside, kInside), 50 * kInside) << "the only one";
  }
}

TEST(StepGaps, WhatLastsIsPartOfTheStep) {
  StepGaps gaps;
  for (int step = 0; step < StepGaps::kKept; ++step) (void)gaps.OfStep(40, kInside);
  int told = 0;
  while (gaps.OfStep(50 * kInside, kInside) == 40) ++told;
  EXPECT_EQ(told, StepGaps::kKept / 2);
}

}  // namespace
}  // namespace gradwire
