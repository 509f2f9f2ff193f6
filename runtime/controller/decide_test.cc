#include "runtime/controller/decide.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "runtime/controller/decide_world.h"

namespace gradwire {
namespace {

std::vector<int64_t> Layers() { return {400000, 300000, 200000, 100000, 50000, 20000}; }

constexpr int kWarmUp = 60;

TEST(Decide, BeginsWithNoneThenBf16) {
  World world(Layers());
  world.Steps(30);
  ASSERT_GE(world.decisions.size(), 2u);
  EXPECT_EQ(world.decisions[0].a, Plan(6, 0)) << "whatever ran before";
  EXPECT_EQ(world.decisions[1].a, Plan(6, 1));
  EXPECT_GE(world.decisions[1].from_turn, 12);
}

TEST(Decide, CompressesOnASlowLink) {
  World world(Layers());
  world.us_per_byte = 0.04;  // 200 Mbit/s
  world.Steps(200);
  EXPECT_LE(world.StepUs(world.running()), 1.05 * world.BestUniformUs());
  EXPECT_LT(world.StepUs(world.running()), 0.5 * world.NoneUs());
}

TEST(Decide, LeavesAFastLinkAlone) {
  World world(Layers());
  world.us_per_byte = 1e-5;
  world.compute_us = 100000;
  world.Steps(200);
  EXPECT_EQ(world.running(), Plan(6, 0));
}

TEST(Decide, ErrorsAboveTheBoundKeepCodecsOut) {
  World world(Layers());
  world.us_per_byte = 0.04;
  world.error_bound = 0.005;  // bf16 gives about 0.002, qsgd of 8 bits 0.013
  world.error_factor = 20;    // 4 bits: more than the lag allows
  world.Steps(300);
  for (const uint8_t rung : world.running()) EXPECT_LE(rung, 1);
}

TEST(Decide, GoesDownWhereARunningCodecIsBeyondItsBound) {
  World world(Layers());
  world.us_per_byte = 0.04;
  world.Steps(200);
  const Plan before = world.running();
  ASSERT_GT(*std::max_element(before.begin(), before.end()), 1);
  world.error_factor = 1000;
  world.Steps(60);
  for (const uint8_t rung : world.running()) EXPECT_LE(rung, 1);
}

TEST(Decide, FollowsANetworkThatGetsSlow) {
  World world(Layers());
  world.us_per_byte = 0.001;
  world.Steps(200);
  world.us_per_byte = 0.05;
  world.Steps(60);
  EXPECT_LE(world.StepUs(world.running()), 1.1 * world.BestUniformUs());
}

// On a link so fast that bf16 only costs its encoding, the warm-up learns nothing of bytes.
TEST(Decide, FollowsANetworkThatGetsSlowAfterAWarmUpThatTaughtNothing) {
  World world(Layers());
  world.us_per_byte = 1e-6;
  world.Steps(200);
  ASSERT_EQ(world.running(), Plan(6, 0));
  world.us_per_byte = 0.04;
  world.Steps(150);
  EXPECT_LE(world.StepUs(world.running()), 1.1 * world.BestUniformUs());
}

// Its encoding alone takes longer than the plain sum: every trial would only cost time.
TEST(Decide, LeavesABaselineAloneThatWasMeasuredSlower) {
  World world(Layers());
  world.us_per_byte = 1e-5;
  world.compute_us = 100;
  world.Steps(1000);
  EXPECT_EQ(world.running(), Plan(6, 0));
  for (const Decision& decision : world.decisions) EXPECT_EQ(decision.a, decision.b);
}

TEST(Decide, TurnsMayWrap) {
  World world(Layers());
  world.us_per_byte = 0.04;
  world.Steps(300);
  const Plan before = world.running();
  world.Steps(70000);
  EXPECT_EQ(world.StepUs(world.running()), world.StepUs(before));
}

TEST(Decide, StalledStepsOfATrialDoNotCount) {
  World world(Layers());
  world.us_per_byte = 0.01;
  world.noise = 0.02;
  int stalls = 0;
  for (int i = 0; i < 1000; ++i) {
    if (world.comparing() && i % 7 == 0 && stalls++ < 20) world.StallNext(500);
    world.Step();
  }
  EXPECT_GT(stalls, 0);
  EXPECT_LE(world.StepUs(world.running()), 1.1 * world.BestUniformUs());
}

TEST(Decide, FollowsANetworkThatGetsFast) {
  World world(Layers());
  world.us_per_byte = 0.04;
  world.Steps(200);
  world.us_per_byte = 0.0004;
  world.Steps(200);
  EXPECT_LE(world.StepUs(world.running()), 1.1 * world.BestUniformUs());
}

// The codec bounds the step before and after, so that the step tells little of the change: the
// baselines have to be measured again, though they were slower.
TEST(Decide, FollowsANetworkThatGetsFastBehindASlowCodec) {
  struct Case {
    double before, after, compute_us;
  };
  for (const Case& c : {Case{4e-4, 5e-5, 500}, Case{6e-4, 7.5e-5, 500}, Case{6e-4, 7.5e-5, 300}}) {
    SCOPED_TRACE(std::to_string(c.before / c.after) + " times faster, compute " +
                 std::to_string(c.compute_us));
    World world(Layers());
    world.us_per_byte = c.before;
    world.compute_us = c.compute_us;
    world.Steps(300);
    const Plan slow = world.running();
    ASSERT_GT(*std::max_element(slow.begin(), slow.end()), 1);
    world.us_per_byte = c.after;
    ASSERT_GT(world.StepUs(slow), 1.2 * world.BestUniformUs());
    world.Steps(450);
    double sum_us = 0;
    for (int i = 0; i < 100; ++i) sum_us += world.Step();
    EXPECT_LE(sum_us, 100 * 1.1 * world.BestUniformUs());
  }
}

TEST(Decide, OneStalledStepChangesNothing) {
  World world(Layers());
  world.us_per_byte = 0.04;
  world.Steps(170);
  while (world.comparing()) world.Step();
  const Plan before = world.running();
  const size_t decisions = world.decisions.size();
  for (int i = 0; i < 2; ++i) {
    world.StallNext(20);
    world.Step();
  }
  world.Steps(8);
  EXPECT_EQ(world.running(), before);
  EXPECT_EQ(world.decisions.size(), decisions);
}

TEST(Decide, SensorsThatLieCostLittle) {
  for (const double lie : {0.5, 2.0, 10.0}) {
    World world(Layers());
    world.us_per_byte = 0.003;
    world.lie = lie;
    world.Steps(kWarmUp);
    double sum_us = 0;
    for (int i = 0; i < 500; ++i) sum_us += world.Step();
    EXPECT_LE(sum_us, 500 * world.NoneUs() / 0.98) << lie;
  }
}

TEST(Decide, IsNeverMuchSlowerThanNone) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const auto draw = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution<double>(std::log(low), std::log(high))(random));
  };
  for (int round = 0; round < 100; ++round) {
    World world(Layers(), seed + round);
    world.us_per_byte = draw(1e-5, 0.1);
    world.compute_us = draw(1e3, 1e6);
    world.latency_us = draw(5, 5000);
    world.noise = 0.03;
    world.Steps(kWarmUp);
    double sum_us = 0;
    for (int i = 0; i < 500; ++i) sum_us += world.Step();
    EXPECT_LE(sum_us, 500 * world.NoneUs() / 0.975)
        << "round " << round << ": " << world.us_per_byte << " us per byte, compute "
        << world.compute_us << " us, latency " << world.latency_us << " us";
  }
}

TEST(Decide, AResumedRunHasNoWarmUp) {
  World before(Layers());
  before.us_per_byte = 0.04;
  before.Steps(300);
  World after(Layers());
  after.us_per_byte = 0.04;
  after.ResumeFrom(before);
  after.Steps(100);
  for (const Decision& decision : after.decisions)
    EXPECT_EQ(decision.why.find("warm-up"), std::string::npos) << decision.why;
  EXPECT_EQ(after.decisions.at(0).a, before.running());
  EXPECT_LE(after.StepUs(after.running()), 1.05 * after.BestUniformUs());
}

// What was switched to because of a prediction may be the slower one.
TEST(Decide, APlanIsSavedOnceItHasWonItsComparison) {
  World world(Layers());
  world.us_per_byte = 0.04;
  Plan before;
  while (world.decisions.empty() || world.decisions.back().why != "much faster by prediction") {
    before = world.running();
    world.Step();
  }
  const Plan better = world.running();
  ASSERT_NE(better, before);
  while (!world.comparing()) {
    EXPECT_EQ(world.Resumed(), before);
    world.Step();
  }
  while (world.comparing()) {
    EXPECT_EQ(world.Resumed(), before);
    world.Step();
  }
  ASSERT_EQ(world.running(), better);
  EXPECT_EQ(world.Resumed(), better);
}

TEST(Decide, ARunResumedElsewhereFollowsItsNetwork) {
  for (const auto& [was, is] : {std::pair(0.04, 0.0004), std::pair(0.0004, 0.04)}) {
    World before(Layers());
    before.us_per_byte = was;
    before.Steps(300);
    World after(Layers());
    after.us_per_byte = is;
    after.ResumeFrom(before);
    after.Steps(200);
    EXPECT_LE(after.StepUs(after.running()), 1.1 * after.BestUniformUs()) << was << " " << is;
  }
}

TEST(Decide, TheSameInputsGiveTheSameDecisions) {
  std::vector<std::vector<Decision>> runs;
  for (int run = 0; run < 2; ++run) {
    World world(Layers(), 7);
    world.noise = 0.05;
    world.Steps(400);
    runs.push_back(world.decisions);
  }
  ASSERT_FALSE(runs[0].empty());
  ASSERT_EQ(runs[0].size(), runs[1].size());
  for (size_t i = 0; i < runs[0].size(); ++i) {
    EXPECT_EQ(runs[0][i].from_turn, runs[1][i].from_turn);
    EXPECT_EQ(runs[0][i].a, runs[1][i].a);
    EXPECT_EQ(runs[0][i].b, runs[1][i].b);
    EXPECT_EQ(runs[0][i].why, runs[1][i].why);
  }
}

}  // namespace
}  // namespace gradwire
