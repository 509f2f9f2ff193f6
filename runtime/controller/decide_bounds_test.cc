// How Decide keeps what codecs lose within its bounds.
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/controller/decide.h"
#include "runtime/controller/decide_world.h"

namespace gradwire {
namespace {

TEST(Decide, ErrorsAboveTheBoundKeepCodecsOut) {
  DecisionWorld world(Layers());
  world.us_per_byte = 0.04;
  world.error_bound = 0.005;  // bf16 gives about 0.002, qsgd of 8 bits 0.013
  world.error_factor = 20;    // 4 bits: more than the lag allows
  world.Steps(300);
  for (const uint8_t rung : world.running()) EXPECT_LE(rung, 1);
}

TEST(Decide, GoesDownWhereARunningCodecIsBeyondItsBound) {
  DecisionWorld world(Layers());
  world.us_per_byte = 0.04;
  world.Steps(200);
  const Plan before = world.running();
  ASSERT_GT(*std::max_element(before.begin(), before.end()), 1);
  world.error_factor = 1000;
  world.Steps(60);
  for (const uint8_t rung : world.running()) EXPECT_LE(rung, 1);
  EXPECT_GT(CountOf(world, "an error was above its bound"), 0);
  // Nor is it taken again soon, when all is well.
  world.error_factor = 1;
  world.Steps(200);
  for (size_t t = 0; t < before.size(); ++t) {
    if (before[t] > 1) {
      EXPECT_NE(world.running()[t], before[t]) << t;
    }
  }
}

// Two windows and the turns that a plan takes to come into effect, also shortly before a baseline
// is due.
TEST(Decide, GoesDownSoonFromAnyMomentBetweenTrials) {
  constexpr int kBaselineDue = 1000;
  int tried = 0;
  for (int after = kBaselineDue - 50; after < kBaselineDue; ++after) {
    DecisionWorld world(Layers());
    world.us_per_byte = 0.04;
    world.Steps(after);
    if (world.comparing()) continue;
    ASSERT_GT(TopRung(world.running()), 1);
    ++tried;
    world.error_factor = 1000;
    world.Steps(18);
    EXPECT_GT(CountOf(world, "an error was above its bound"), 0) << "after " << after;
  }
  EXPECT_GT(tried, 20);
}

// Also not as a baseline, however much faster it is than none.
TEST(Decide, RunsNoBf16BeyondItsBoundOnceItHasBegun) {
  for (const double us_per_byte : {0.01, 0.001}) {
    DecisionWorld world({4 << 20, 1 << 20});
    world.us_per_byte = us_per_byte;
    world.error_bound = 0.001;  // bf16 gives about 0.002
    world.Steps(100);
    const size_t begun = world.decisions.size();
    world.Steps(1500);
    EXPECT_GT(world.decisions.size(), begun) << "no baseline was measured";
    for (size_t i = begun; i < world.decisions.size(); ++i) {
      const Decision& decision = world.decisions[i];
      for (const Plan* plan : {&decision.a, &decision.b})
        EXPECT_EQ(std::count(plan->begin(), plan->end(), kBf16Rung), 0) << decision.why;
    }
  }
}

}  // namespace
}  // namespace gradwire
