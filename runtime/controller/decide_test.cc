#include "runtime/controller/decide.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "runtime/controller/decide_world.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

TEST(Decide, BeginsWithBf16ThenNone) {
  DecisionWorld world(Layers());
  world.us_per_byte = 0.002;
  world.Steps(30);
  ASSERT_GE(world.decisions.size(), 2u);
  EXPECT_EQ(world.decisions[0].a, Plan(6, 1)) << "whatever ran before";
  EXPECT_EQ(world.decisions[1].a, Plan(6, 0));
}

int TurnsOfBf16(double noise) {
  DecisionWorld world(Layers());
  world.us_per_byte = 0.002;
  world.noise = noise;
  world.Steps(40);
  EXPECT_EQ(world.decisions.at(1).a, Plan(6, 0));
  return world.decisions.at(1).from_turn;
}

// The first step does not count, and the last two are those in which the order for none travels.
TEST(Decide, MeasuresBf16OnceMoreWhereStepsVary) {
  EXPECT_EQ(TurnsOfBf16(0), 1 + 3 + 2);
  EXPECT_EQ(TurnsOfBf16(0.3), 1 + 10 + 2);
}

// Where the best plan saves 0.65 of bf16's step, and where it saves 0.4.
TEST(Decide, MeasuresNoNoneWhereBf16ClearlyWaitsForItsBytes) {
  for (const double us_per_byte : {0.04, 0.007}) {
    SCOPED_TRACE(us_per_byte);
    DecisionWorld world(Layers());
    world.us_per_byte = us_per_byte;
    const double saved = 1 - world.BestUniformUs() / world.StepUs(Plan(6, 1));
    EXPECT_NEAR(saved, us_per_byte > 0.01 ? 0.65 : 0.4, 0.05);
    world.Steps(40);
    ASSERT_GE(world.decisions.size(), 2u);
    const Plan& second = world.decisions[1].a;
    EXPECT_EQ(world.decisions[1].from_turn, 1 + 2 + 2);
    EXPECT_GT(*std::max_element(second.begin(), second.end()), 1);
    for (const Decision& decision : world.decisions) {
      EXPECT_NE(decision.a, Plan(6, 0));
      EXPECT_NE(decision.b, Plan(6, 0));
    }
  }
}

TEST(Decide, FirstStepsThatWereDisturbedAreNotBelievedForLong) {
  for (const double compute_us : {300.0, 1000.0, 20000.0}) {
    DecisionWorld world(Layers());
    world.us_per_byte = 0.04;
    world.compute_us = compute_us;
    world.Steps(3);
    world.us_per_byte = 1e-5;
    world.Steps(kWarmUp);
    EXPECT_EQ(CountOf(world, "much faster than bf16 by prediction"), 1);
    EXPECT_EQ(CountOf(world, "none is measured"), 1);
    EXPECT_LE(ForSteps(&world, 500), 500 * world.NoneUs() / 0.98) << compute_us;
  }
}

// As the vote on each step does, over a distance.
TEST(Decide, WhatNoPlanChangesIsNotPromised) {
  for (const double compute_us : {1000.0, 20000.0}) {
    DecisionWorld world(Layers());
    world.us_per_byte = 0.003;
    world.compute_us = compute_us;
    world.other_us = 100000;
    world.Steps(kWarmUp);
    EXPECT_EQ(CountOf(world, "much faster than bf16 by prediction"), 0);
    EXPECT_EQ(CountOf(world, "none is measured"), 1);
  }
}

// Each operation waits for the wire's latency, whatever it sends: nothing that was promised comes.
TEST(Decide, MeasuresNoneWhereLatencyWasTakenForBytes) {
  DecisionWorld world(Layers());
  world.us_per_byte = 1e-5;
  world.compute_us = 1000;
  world.latency_us = 5000;
  world.Steps(kWarmUp);
  EXPECT_EQ(CountOf(world, "much faster than bf16 by prediction"), 1);
  EXPECT_EQ(CountOf(world, "none is measured"), 1);
  EXPECT_LE(ForSteps(&world, 100), 100 * world.NoneUs() / 0.98);
}

// What makes bf16 slow is its codec, which none does not have.
TEST(Decide, MeasuresNoneWhereBf16WaitsForItsCodec) {
  DecisionWorld world(Layers());
  world.us_per_byte = 0.04;
  world.compute_us = 1000;
  world.training_factor[kBf16Rung] = 20;
  world.Steps(3);
  world.us_per_byte = 1e-5;
  world.Steps(kWarmUp);
  EXPECT_EQ(CountOf(world, "much faster than bf16 by prediction"), 1);
  EXPECT_EQ(CountOf(world, "none is measured"), 1);
  EXPECT_LE(ForSteps(&world, 100), 100 * world.NoneUs() / 0.98);
}

// It was worth leaving none out for, whatever bf16's codec takes: what was measured is not to be
// proposed again, which here nothing is left for.
TEST(Decide, TakesWhatNoneWasLeftOutForWhereThatIsFaster) {
  DecisionWorld world(Layers());
  world.us_per_byte = 0.04;
  world.compute_us = 1000;
  world.training_factor[kBf16Rung] = 20;
  world.Steps(3);
  world.us_per_byte = 0.0005;
  world.SpendBudget();
  world.Steps(kWarmUp);
  EXPECT_EQ(CountOf(world, "much faster than bf16 by prediction"), 1);
  EXPECT_EQ(CountOf(world, "none is measured"), 1);
  EXPECT_LE(world.StepUs(world.running()), 0.8 * world.NoneUs());
}

TEST(Decide, CompressesOnASlowLink) {
  DecisionWorld world(Layers());
  world.us_per_byte = 0.04;  // 200 Mbit/s
  world.Steps(200);
  EXPECT_LE(world.StepUs(world.running()), 1.05 * world.BestUniformUs());
  EXPECT_LT(world.StepUs(world.running()), 0.5 * world.NoneUs());
}

TEST(Decide, LeavesAFastLinkAlone) {
  DecisionWorld world(Layers());
  world.us_per_byte = 1e-5;
  world.compute_us = 100000;
  world.Steps(200);
  EXPECT_EQ(world.running(), Plan(6, 0));
}

TEST(Decide, FollowsANetworkThatGetsSlow) {
  DecisionWorld world(Layers());
  world.us_per_byte = 0.001;
  world.Steps(200);
  world.us_per_byte = 0.05;
  world.Steps(60);
  EXPECT_LE(world.StepUs(world.running()), 1.1 * world.BestUniformUs());
}

// By ten times: how soon it is near the best again, trials included.
TEST(Decide, FollowsAChangeByTenTimesSoon) {
  struct Case {
    double before, after;
    int steps;
  };
  for (const Case& c : {Case{0.004, 0.04, 40}, Case{0.0004, 0.004, 40}, Case{0.04, 0.004, 150},
                        Case{0.004, 0.0004, 150}}) {
    DecisionWorld world(Layers());
    world.us_per_byte = c.before;
    world.Steps(200);
    world.us_per_byte = c.after;
    world.Steps(c.steps);
    EXPECT_LE(ForSteps(&world, 20), 20 * 1.1 * world.BestUniformUs())
        << c.before << " to " << c.after;
  }
}

TEST(Decide, LeavesSmallTensorsAloneWhereMessagesTakeLong) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    DecisionWorld world({400000, 1000, 300000, 1000, 200000, 1000, 1000, 1000}, seed);
    world.message_us = 100;
    world.noise = 0.02;
    world.Steps(300);
    const Plan expected = {3, 0, 3, 0, 3, 0, 0, 0};
    EXPECT_LE(world.StepUs(world.running()), 1.02 * world.StepUs(expected)) << "seed " << seed;
  }
}

// The model had taken the time under way for latency, or for that of codecs.
TEST(Decide, FollowsABandwidthThatShrinksWhereBytesHadTakenNoTime) {
  for (const double latency_us : {20, 200}) {
    for (const double us_per_byte : {1e-6, 0.0002, 0.0005}) {
      for (uint64_t seed = 1; seed <= 10; ++seed) {
        DecisionWorld world(Layers(), seed);
        world.latency_us = latency_us;
        world.us_per_byte = us_per_byte;
        world.noise = 0.01;
        world.Steps(200);
        world.us_per_byte = 0.02;
        world.Steps(25);
        EXPECT_LE(world.StepUs(world.running()), 1.1 * world.BestUniformUs())
            << latency_us << " us, " << us_per_byte << " us/B, seed " << seed;
      }
    }
  }
}

TEST(Decide, FollowsAChangeInTheMiddleOfATrial) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    DecisionWorld world(Layers(), seed);
    world.us_per_byte = 0.004;
    world.noise = 0.02;
    world.Steps(kWarmUp);
    ASSERT_TRUE(StepUntil(
        &world, [&] { return world.comparing(); }, [] {}))
        << seed;
    world.Steps(2);
    world.us_per_byte = 0.04;
    world.Steps(60);
    EXPECT_LE(world.StepUs(world.running()), 1.1 * world.BestUniformUs()) << seed;
  }
}

// Of one rung one plan is remembered: that which is tried must not take the place of the one that
// then runs on.
TEST(Decide, FollowsAChangeInTheMiddleOfATrialWithinARung) {
  struct Case {
    double before, after;
  };
  for (const Case& c :
       {Case{0.004, 0.08}, Case{0.006, 0.018}, Case{0.04, 0.004}, Case{0.008, 0.0008}}) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      DecisionWorld world(Layers(), seed);
      world.us_per_byte = c.before;
      world.noise = 0.02;
      world.Steps(kWarmUp);
      const auto within_a_rung = [&] {
        const Decision& last = world.decisions.back();
        return world.comparing() && TopRung(last.a) == TopRung(last.b);
      };
      // The more is computed the fewer tensors need a codec.
      ASSERT_TRUE(StepUntil(&world, within_a_rung, [&] { world.compute_us *= 1.004; }));
      world.Steps(10);
      world.us_per_byte = c.after;
      world.Steps(60);
      EXPECT_LE(world.StepUs(world.running()), 1.1 * world.BestUniformUs())
          << c.before << " to " << c.after << ", seed " << seed;
    }
  }
}

// On a link so fast that bf16 only costs its encoding, the warm-up learns nothing of bytes.
TEST(Decide, FollowsANetworkThatGetsSlowAfterAWarmUpThatTaughtNothing) {
  DecisionWorld world(Layers());
  world.us_per_byte = 1e-6;
  world.Steps(200);
  ASSERT_EQ(world.running(), Plan(6, 0));
  world.us_per_byte = 0.04;
  world.Steps(150);
  EXPECT_LE(world.StepUs(world.running()), 1.1 * world.BestUniformUs());
}

TEST(Decide, TurnsMayWrap) {
  DecisionWorld world(Layers());
  world.us_per_byte = 0.04;
  world.Steps(300);
  const Plan before = world.running();
  world.Steps(70000);
  EXPECT_EQ(world.StepUs(world.running()), world.StepUs(before));
}

// Without believing before it is measured that what sends more is faster.
TEST(Decide, FollowsANetworkThatGetsFast) {
  struct Case {
    double compute_us, before, after;
    double qsgd4_factor = 1;  // of its codec's time in a probe
  };
  for (const Case& c : {Case{20000, 0.04, 0.0004}, Case{1000, 0.001, 5e-5},
                        Case{300, 0.01, 0.001, 3}, Case{5000, 0.004, 0.0002, 5}}) {
    SCOPED_TRACE(c.compute_us);
    DecisionWorld world(Layers());
    world.us_per_byte = c.before;
    world.compute_us = c.compute_us;
    world.training_factor[3] = c.qsgd4_factor;
    world.Steps(200);
    world.us_per_byte = c.after;
    world.Steps(150);
    EXPECT_LE(world.StepUs(world.running()), 1.1 * world.BestUniformUs());
    EXPECT_EQ(CountOf(world, "much faster by prediction"), 0);
  }
}

// What trials have spent beyond their share of the time was of the long steps.
TEST(Decide, FollowsANetworkThatGetsFastAfterTrialsThatCostMuch) {
  for (const int before : {100, 200}) {
    for (const double times : {10.0, 30.0}) {
      SCOPED_TRACE(std::to_string(times) + " times faster after " + std::to_string(before));
      DecisionWorld world(Layers());
      world.us_per_byte = 0.001;
      world.compute_us = 300;
      world.noise = 0.03;
      world.Steps(before);
      world.us_per_byte /= times;
      world.Steps(150);
      EXPECT_LE(world.StepUs(world.running()), 1.1 * world.BestUniformUs());
    }
  }
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
    DecisionWorld world(Layers());
    world.us_per_byte = c.before;
    world.compute_us = c.compute_us;
    world.Steps(300);
    const Plan slow = world.running();
    ASSERT_GT(*std::max_element(slow.begin(), slow.end()), 1);
    world.us_per_byte = c.after;
    ASSERT_GT(world.StepUs(slow), 1.2 * world.BestUniformUs());
    world.Steps(450);
    EXPECT_LE(ForSteps(&world, 100), 100 * 1.1 * world.BestUniformUs());
  }
}

TEST(Decide, TensorsThatAreNotSubmittedTellNoPrice) {
  DecisionWorld world(Layers());
  world.us_per_byte = 0.04;
  world.Steps(kWarmUp);
  const int running = TopRung(world.running());
  ASSERT_GT(running, kBf16Rung);
  world.misses_telling_steps = true;
  world.Steps(kWarmUp);
  EXPECT_NEAR(world.CodecUsPerElemAsKnown(running), kCandidates[running].codec_us_per_elem, 1e-4);
}

TEST(Decide, WhatANoneThatSendsAlongWhatWasKeptCostsIsForgotten) {
  DecisionWorld world(Layers());
  world.us_per_byte = 1e-5;
  world.none_us_per_elem = 0.001;
  world.Steps(kWarmUp);
  ASSERT_EQ(world.running(), Plan(6, kNoneRung));
  ASSERT_GT(world.CodecUsPerElemAsKnown(kNoneRung), 1e-4);
  world.none_us_per_elem = 0;
  world.Steps(kWarmUp);
  EXPECT_LT(world.CodecUsPerElemAsKnown(kNoneRung), 1e-6);
}

TEST(Decide, OneStalledStepChangesNothing) {
  DecisionWorld world(Layers());
  world.us_per_byte = 0.04;
  world.Steps(170);
  ASSERT_TRUE(StepUntil(
      &world, [&] { return !world.comparing(); }, [] {}));
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

// Late by as long as a step takes: too short to be dropped as a stall. At every place in a window,
// and in a comparison with what is a little slower.
TEST(Decide, ARankThatIsLateTwiceChangesNothing) {
  constexpr int kOffsets = 40;
  for (const double us_per_byte : {0.04, 0.004, 1e-5}) {
    for (int offset = 0; offset <= 2 * kOffsets; ++offset) {
      DecisionWorld world(Layers());
      world.us_per_byte = us_per_byte;
      world.Steps(170);
      if (offset > kOffsets) {
        ASSERT_TRUE(StepUntil(
            &world, [&] { return world.comparing(); }, [] {}));
      }
      world.Steps(offset % (kOffsets + 1));
      const Plan before = world.running();
      for (int i = 0; i < 2; ++i) {
        world.StallNext(2);
        world.Step();
      }
      world.Steps(20);
      EXPECT_EQ(world.running(), before) << us_per_byte << " at " << offset;
    }
  }
}

TEST(Decide, SensorsThatLieCostLittle) {
  const std::vector<std::vector<double Lies::*>> liars = {
      {&Lies::busy},  {&Lies::compute},
      {&Lies::ready}, {&Lies::codec},
      {&Lies::error}, {&Lies::busy, &Lies::compute, &Lies::ready, &Lies::codec, &Lies::error}};
  for (const double lie : {0.5, 2.0, 10.0}) {
    for (size_t liar = 0; liar < liars.size(); ++liar) {
      for (const double us_per_byte : {1e-5, 0.003, 0.04}) {
        DecisionWorld world(Layers());
        world.us_per_byte = us_per_byte;
        for (double Lies::*sensor : liars[liar]) world.lies.*sensor = lie;
        world.Steps(kWarmUp);
        EXPECT_LE(ForSteps(&world, 500), 500 * world.NoneUs() / 0.98)
            << "sensors " << liar << " tell " << lie << " of the truth at " << us_per_byte;
      }
    }
  }
}

// The more is computed the more communication it hides.
TEST(Decide, CompressesLessWhereMoreIsComputed) {
  std::vector<double> bytes;
  for (const double factor : {0.2, 1.0, 5.0, 20.0}) {
    DecisionWorld world(Layers());
    world.us_per_byte = 0.003;
    world.compute_us *= factor;
    world.Steps(400);
    bytes.push_back(WireBytes(world.Job(), world.running()));
  }
  EXPECT_TRUE(std::is_sorted(bytes.begin(), bytes.end()));
  DecisionWorld world(Layers());
  const double none = WireBytes(world.Job(), Plan(6, 0));
  EXPECT_LT(bytes.front(), 0.5 * none);
  EXPECT_EQ(bytes.back(), none);
}

TEST(Decide, IsNeverMuchSlowerThanNone) {
  SCOPED_TRACE(TestSeedText());
  std::mt19937_64 random(TestSeed());
  const auto draw = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution<double>(std::log(low), std::log(high))(random));
  };
  for (int round = 0; round < 100; ++round) {
    DecisionWorld world(Layers(), TestSeed() + round);
    world.us_per_byte = draw(1e-5, 0.1);
    world.compute_us = draw(1e3, 1e6);
    world.latency_us = draw(5, 5000);
    world.noise = 0.03;
    world.Steps(kWarmUp);
    EXPECT_LE(ForSteps(&world, 500), 500 * world.NoneUs() / 0.98)
        << "round " << round << ": " << world.us_per_byte << " us per byte, compute "
        << world.compute_us << " us, latency " << world.latency_us << " us";
  }
}

TEST(Decide, AResumedRunHasNoWarmUp) {
  DecisionWorld before(Layers());
  before.us_per_byte = 0.04;
  before.Steps(300);
  DecisionWorld after(Layers());
  after.us_per_byte = 0.04;
  after.ResumeFrom(before);
  after.Steps(100);
  for (const Decision& decision : after.decisions)
    EXPECT_EQ(decision.why.find("warm-up"), std::string::npos) << decision.why;
  EXPECT_EQ(after.decisions.at(0).a, before.running());
  EXPECT_LE(after.StepUs(after.running()), 1.05 * after.BestUniformUs());
}

TEST(Decide, ARunResumedElsewhereFollowsItsNetwork) {
  for (const auto& [was, is] : {std::pair(0.04, 0.0004), std::pair(0.0004, 0.04)}) {
    DecisionWorld before(Layers());
    before.us_per_byte = was;
    before.Steps(300);
    DecisionWorld after(Layers());
    after.us_per_byte = is;
    after.ResumeFrom(before);
    after.Steps(200);
    EXPECT_LE(after.StepUs(after.running()), 1.1 * after.BestUniformUs()) << was << " " << is;
  }
}

TEST(Decide, TheSameInputsGiveTheSameDecisions) {
  std::vector<std::vector<Decision>> runs;
  for (int run = 0; run < 2; ++run) {
    DecisionWorld world(Layers(), 7);
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
