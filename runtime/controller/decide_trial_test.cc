// What Decide measures before it believes it: which plans it compares, and how often.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/controller/decide.h"
#include "runtime/controller/decide_world.h"

namespace gradwire {
namespace {

// What a plan was tried for is told again when it is taken up.
TEST(DecideTrial, TellsOfAPlanThatATrialKeepsWhatWasPromised) {
  int kept = 0;
  for (const double us_per_byte : {0.002, 0.004, 0.006, 0.008, 0.012}) {
    DecisionWorld world(Layers());
    world.us_per_byte = us_per_byte;
    world.Steps(400);
    for (size_t i = 1; i < world.decisions.size(); ++i) {
      const Decision& decision = world.decisions[i];
      const Decision& trial = world.decisions[i - 1];
      if (!decision.why.starts_with("it took") || trial.predicted_us == 0) continue;
      ++kept;
      EXPECT_EQ(decision.predicted_us, trial.predicted_us);
      EXPECT_EQ(decision.was_us, trial.was_us);
    }
  }
  EXPECT_GT(kept, 0) << "nothing was kept by a trial";
}

// Its steps cost what they take.
TEST(DecideTrial, LeavesABaselineAloneThatWasMeasuredFarSlower) {
  for (const double us_per_byte : {0.002, 0.006}) {
    DecisionWorld world(Layers());
    world.us_per_byte = us_per_byte;
    world.compute_us = 100;
    world.Steps(900);
    EXPECT_LE(1.15 * world.StepUs(world.running()), world.NoneUs());
    EXPECT_EQ(CountOf(world, "compared with the baseline"), 0);
  }
}

// It may have been so by chance. Each time that it is slower again it is left alone for longer.
TEST(DecideTrial, MeasuresABaselineEverLessThatWasALittleSlower) {
  DecisionWorld world(Layers());
  world.us_per_byte = 1e-5;
  world.compute_us = 100;
  world.Steps(200);
  const double ratio = world.StepUs(world.running()) / world.NoneUs();
  ASSERT_LT(ratio, 1);
  ASSERT_GT(1.15 * ratio, 1);
  world.Steps(600);
  EXPECT_GE(CountOf(world, "compared with the baseline"), 1);
  EXPECT_LE(ForSteps(&world, 2000), 1.003 * 2000 * world.StepUs(world.running()));
  EXPECT_LE(CountOf(world, "compared with the baseline"), 6);
}

// Probes promise what training does not keep. Then the running plan is the slower one of the two.
TEST(DecideTrial, WhatWasSwitchedToAtOnceAndLostIsPaidFor) {
  DecisionWorld world(Layers());
  world.us_per_byte = 0.003;
  world.Steps(kWarmUp);
  world.us_per_byte = 0.006;
  const auto none = [] {};
  ASSERT_TRUE(StepUntil(
      &world, [&] { return CountOf(world, "much faster by prediction") > 0; }, none));
  const double spent_us = world.spent_us();
  world.training_factor = {1, 1, 20, 20};
  ASSERT_TRUE(StepUntil(
      &world, [&] { return CountOf(world, "compared with the plan before") > 0; }, none));
  ASSERT_TRUE(StepUntil(
      &world, [&] { return !world.comparing(); }, none));
  EXPECT_GT(world.spent_us(), spent_us);
}

// In place of which none would have been measured.
TEST(DecideTrial, TheComparisonOfTheWarmUpCostsNoTrials) {
  DecisionWorld world(Layers());
  world.us_per_byte = 0.04;
  world.training_factor = {1, 1, 300, 300};
  const auto none = [] {};
  ASSERT_TRUE(StepUntil(
      &world, [&] { return CountOf(world, "compared with the plan before") > 0; }, none));
  ASSERT_TRUE(StepUntil(
      &world, [&] { return !world.comparing(); }, none));
  EXPECT_EQ(world.spent_us(), 0);
}

// A plan beat it by luck, for each of its steps was late: it is not left alone for a thousand
// steps.
TEST(DecideTrial, MeasuresABaselineAgainThatWasALittleSlower) {
  DecisionWorld world(Layers());
  world.us_per_byte = 1e-5;
  world.compute_us = 100;
  world.noise = 0.01;
  world.training_factor = {1, 4, 4, 4};
  world.Steps(kWarmUp);
  ASSERT_EQ(world.running(), Plan(6, 0));
  ASSERT_TRUE(StepUntil(
      &world, [&] { return world.next_in_trial() == 0; }, [] {}));
  const Plan lucky = world.decisions.back().b;
  const double slower = world.StepUs(lucky) / world.NoneUs();
  ASSERT_GT(slower, 1.02);
  while (world.comparing()) {
    if (!world.next_is_of_b()) world.StallNext(1.1 * slower);
    world.Step();
  }
  ASSERT_EQ(world.running(), lucky) << world.decisions.back().why;
  world.Steps(300);
  EXPECT_GE(CountOf(world, "compared with the baseline"), 1);
  EXPECT_LE(world.StepUs(world.running()), world.NoneUs());
}

// As far as it can be told, for steps of the running plan are late.
TEST(DecideTrial, WhatSeemsNoFasterThanNoneGivesWayToIt) {
  DecisionWorld world(Layers());
  world.us_per_byte = 1e-5;
  world.compute_us = 100;
  const auto compares = [&] { return CountOf(world, "compared with the baseline") > 0; };
  ASSERT_TRUE(StepUntil(&world, compares, [] {}));
  const Plan none(6, kNoneRung);
  ASSERT_EQ(world.decisions.back().b, none);
  const double faster = world.NoneUs() / world.StepUs(world.running());
  ASSERT_GT(faster, 1);
  while (world.comparing()) {
    if (!world.next_is_of_b()) world.StallNext(1.002 * faster);
    world.Step();
  }
  EXPECT_EQ(world.running(), none) << world.decisions.back().why;
}

// The model takes bf16 for the faster baseline, but nothing may be slower than none.
TEST(DecideTrial, MeasuresNoneBeforeBf16WhereItWasALittleSlower) {
  for (const double slower : {0.98, 1.1, 1.2}) {
    DecisionWorld world(Layers());
    world.us_per_byte = 0.0035;
    world.Steps(kWarmUp);
    ASSERT_GT(TopRung(world.running()), kBf16Rung);
    ASSERT_LT(world.StepUs(Plan(6, kBf16Rung)), world.NoneUs());
    ASSERT_TRUE(StepUntil(
        &world, [&] { return CountOf(world, "compared with the baseline") > 0; },
        [&] { world.BelieveOfNone(slower); }));
    EXPECT_EQ(world.decisions.back().b == Plan(6, kNoneRung), slower < 1.15) << slower;
  }
}

// The plan before seems to cost more than it does: its first step sends on what a codec has kept.
TEST(DecideTrial, WhatWasSwitchedToAtOnceIsComparedThoughNothingIsLeft) {
  DecisionWorld world(Layers());
  world.us_per_byte = 0.0005;
  world.error_bound = 1e-9;  // none or four bits
  world.Steps(kWarmUp);
  world.SpendBudget();
  world.us_per_byte = 0.003;
  const auto compares = [&] { return CountOf(world, "compared with the plan before") > 0; };
  ASSERT_TRUE(StepUntil(&world, compares, [] {}));
  const Plan at_once = world.running(), before = world.decisions.back().b;
  world.training_factor = {1, 1, 1, 40};
  world.flush_us_per_elem = 0.03;
  ASSERT_GT(world.StepUs(at_once), 1.05 * world.StepUs(before));
  ASSERT_TRUE(StepUntil(
      &world, [&] { return !world.comparing(); }, [] {}));
  EXPECT_EQ(world.running(), before) << world.decisions.back().why;
}

// As fast as it was: what runs is compared with it now and then.
TEST(DecideTrial, MeasuresABaselineAgainThatWasAsFast) {
  DecisionWorld world(Layers());
  world.us_per_byte = 1e-9;
  world.training_factor = {1, 0, 0, 0};
  world.Steps(kWarmUp + 300);
  EXPECT_GE(CountOf(world, "compared with the baseline"), 1);
}

// One tensor is encoded while others wait for the network. The model, which serves them one after
// the other, sees no gain in that.
TEST(DecideTrial, FindsWhatOverlapsByMeasuring) {
  DecisionWorld world(Layers());
  world.us_per_byte = 1e-5;
  world.compute_us = 100;
  world.Steps(200);
  EXPECT_LE(world.StepUs(world.running()), 0.97 * world.NoneUs());
}

// It sends what the codec before has kept back, and is longer. What training tells of codecs is
// half of what they cost, so that one is proposed that is slower than none.
TEST(DecideTrial, WhatTheFirstStepOfNoneTakesLongerHidesNothing) {
  for (const double us_per_byte : {5.5e-5, 6e-5, 6.5e-5}) {
    DecisionWorld world(Layers());
    world.noise = 0.01;
    world.us_per_byte = us_per_byte;
    world.compute_us = 300;
    world.lies.codec = 0.3;
    world.error_bound = 1e-9;  // none or four bits
    world.flush_us_per_elem = 0.0003;
    world.Steps(1000);
    EXPECT_LE(world.StepUs(world.running()), 1.02 * world.NoneUs())
        << testing::PrintToString(world.running());
  }
}

// Copies take the processor from computing, which no model knows: what hides behind it is not free.
TEST(DecideTrial, FindsOneCodecForAllByMeasuring) {
  for (const double copy_us_per_byte : {0.0005, 0.001, 0.004}) {
    DecisionWorld world(Layers());
    world.us_per_byte = 0.004;
    world.copy_us_per_byte = copy_us_per_byte;
    world.Steps(800);
    EXPECT_EQ(world.running(), Plan(6, kLadder - 1)) << copy_us_per_byte;
  }
}

// No trial makes steps as long as those of none: what is spent comes back sooner.
TEST(DecideTrial, TriesMoreWhereNoneIsFarSlower) {
  DecisionWorld world(Layers());
  world.us_per_byte = 0.004;
  world.copy_us_per_byte = 0.001;
  world.Steps(kWarmUp);
  ASSERT_TRUE(StepUntil(
      &world, [&] { return !world.comparing(); }, [] {}));
  ASSERT_GT(world.NoneUs(), 1.15 * world.StepUs(world.running()));
  world.SpendBudget(12 * world.StepUs(world.running()));
  const size_t decisions = world.decisions.size();
  world.Steps(400);
  ASSERT_EQ(world.decisions.size(), decisions) << world.decisions.back().why;
  world.Steps(400);
  EXPECT_GT(world.decisions.size(), decisions);
}

// All tensors on one codec are no faster than what a search has found: tried ever less, within the
// budget.
TEST(DecideTrial, AsksEverLessForOneCodecForAll) {
  DecisionWorld world(Layers());
  world.us_per_byte = 0.004;
  world.Steps(800);
  const std::string why = "compared: one codec for all may be better";
  const int at_first = CountOf(world, why);
  EXPECT_GE(at_first, 1);
  EXPECT_LE(ForSteps(&world, 2000), 1.01 * 2000 * world.StepUs(world.running()));
  EXPECT_LE(CountOf(world, why), 2 * at_first);
}

// Nothing was taken down there, and a trial would only cost time.
TEST(DecideTrial, AsksForNoCodecForAllWhereNoneRuns) {
  DecisionWorld world(Layers());
  world.us_per_byte = 1e-5;
  world.compute_us = 20000;
  world.Steps(1000);
  EXPECT_EQ(world.running(), Plan(6, 0));
  EXPECT_EQ(CountOf(world, "compared: one codec for all may be better"), 0);
}

// No tensor gains, and each trial takes long.
TEST(DecideTrial, ExploresEverLessWhereNothingGains) {
  DecisionWorld world(Layers());
  world.us_per_byte = 1e-5;
  world.compute_us = 100;
  world.training_factor = {1, 4, 4, 4};
  world.Steps(1000);
  const std::string why = "compared: one tensor may be better off";
  const int at_first = CountOf(world, why);
  EXPECT_GE(at_first, 1);
  EXPECT_LE(ForSteps(&world, 2000), 1.02 * 2000 * world.NoneUs());
  EXPECT_EQ(world.running(), Plan(6, 0));
  EXPECT_LE(CountOf(world, why), 3 * at_first);
}

// What took four times as long on a link as it is half of the time has not become any faster.
TEST(DecideTrial, LeavesABaselineAloneWhileTheLinkGoesToAndFro) {
  DecisionWorld world(Layers());
  world.us_per_byte = 1e-5;
  world.compute_us = 100;
  world.training_factor = {1, 4, 4, 4};
  world.Steps(kWarmUp);
  for (int i = 0; i < 40; ++i) {
    world.latency_us = i % 2 == 0 ? 40 : 20;
    world.Steps(10);
  }
  world.Steps(400);
  EXPECT_EQ(world.running(), Plan(6, 0));
  EXPECT_EQ(CountOf(world, "compared with the baseline"), 0);
}

// A little faster at times: what took four times as long still does.
TEST(DecideTrial, LeavesABaselineAloneWhileACompressedLinkGetsALittleFaster) {
  DecisionWorld world(Layers());
  world.us_per_byte = 0.04;
  world.compute_us = 1000;
  world.Steps(kWarmUp);
  for (int i = 0; i < 40; ++i) {
    world.us_per_byte = i % 2 == 0 ? 0.03 : 0.04;
    world.Steps(10);
  }
  world.Steps(400);
  EXPECT_EQ(TopRung(world.running()), 3);
  EXPECT_EQ(CountOf(world, "compared with the baseline"), 0);
}

// The plan before was measured since the last change, and took far longer.
TEST(DecideTrial, WhatIsFarFasterNeedsNoComparison) {
  DecisionWorld world(Layers());
  world.us_per_byte = 0.002;
  world.Steps(kWarmUp);
  ASSERT_EQ(CountOf(world, "much faster by prediction"), 0);
  world.us_per_byte = 0.04;
  world.Steps(kWarmUp);
  EXPECT_LE(world.StepUs(world.running()), 1.05 * world.BestUniformUs());
  EXPECT_EQ(CountOf(world, "much faster by prediction"), 1);
  EXPECT_EQ(CountOf(world, "compared with the plan before"), 0);
}

// The first steps of a training may be slow for other reasons than the wire.
TEST(DecideTrial, WhatTheWarmUpLeftNoneOutForIsCompared) {
  DecisionWorld world(Layers());
  world.us_per_byte = 0.04;
  world.Steps(kWarmUp);
  EXPECT_LE(world.StepUs(world.running()), 1.05 * world.BestUniformUs());
  EXPECT_EQ(CountOf(world, "compared with the plan before"), 1);
}

TEST(DecideTrial, DisturbedProbesKeepNoCodecOut) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    DecisionWorld world(Layers(), seed);
    world.us_per_byte = 0.006;
    world.disturbed_probes = 0.6;
    world.Steps(150);
    EXPECT_LE(world.StepUs(world.running()), 1.1 * world.BestUniformUs()) << seed;
  }
}

TEST(DecideTrial, ProbesOfSmallTensorsKeepNoCodecOut) {
  DecisionWorld world(Layers());
  world.us_per_byte = 0.0005;
  world.Steps(kWarmUp);
  ASSERT_EQ(world.running(), Plan(6, 0));
  world.small_probes = 1;
  world.Steps(500);
  world.us_per_byte = 0.006;
  world.Steps(60);
  EXPECT_LE(world.StepUs(world.running()), 1.1 * world.BestUniformUs());
}

// What was measured is believed, not what was predicted: each rung is tried, none again and again.
TEST(DecideTrial, ACodecThatIsSlowerThanItsProbesIsNotTriedAllTheTime) {
  DecisionWorld world(Layers());
  world.us_per_byte = 0.01;
  world.noise = 0.02;
  world.training_factor = {1, 1, 4, 60};
  world.Steps(400);
  EXPECT_LE(world.StepUs(world.running()), 1.05 * world.BestUniformUs());
  const auto proposed = [](const Decision& d) { return d.predicted_us > 0 && TopRung(d.b) == 3; };
  EXPECT_EQ(std::count_if(world.decisions.begin(), world.decisions.end(), proposed), 1);
}

// Each change of the network makes what a codec took in training forgotten, and its probes promise
// much again.
TEST(DecideTrial, APromiseThatWasBrokenIsTriedInBlocks) {
  DecisionWorld world(Layers());
  world.us_per_byte = 0.004;
  world.compute_us = 1000;
  world.noise = 0.02;
  world.training_factor = {1, 40, 60, 60};
  for (const double factor : {1.0, 1.5, 0.6, 1.7, 0.6}) {
    world.us_per_byte *= factor;
    world.Steps(70);
  }
  EXPECT_EQ(CountOf(world, "by prediction"), 1);
}

// A busy neighbour takes its processor while a codec is tried, and then leaves.
TEST(DecideTrial, ACodecThatGetsFasterIsTriedAgain) {
  struct Case {
    double us_per_byte, factor, compute;
  };
  for (const Case& c : {Case{0.002, 20, 1}, Case{0.002, 20, 0.5}, Case{0.001, 8, 1},
                        Case{0.001, 8, 1.5}, Case{0.003, 20, 1}}) {
    SCOPED_TRACE(testing::Message() << c.us_per_byte << " us per byte, " << c.factor
                                    << " times slower, compute then " << c.compute);
    DecisionWorld world(Layers());
    world.us_per_byte = c.us_per_byte;
    world.compute_us = 1000;
    world.noise = 0.02;
    world.training_factor = {1, 1, c.factor, c.factor};
    world.Steps(300);
    world.training_factor = {1, 1, 1, 1};
    world.compute_us *= c.compute;
    ASSERT_GT(world.StepUs(world.running()), 1.3 * world.BestUniformUs());
    world.Steps(600);
    EXPECT_LE(world.StepUs(world.running()), 1.1 * world.BestUniformUs());
  }
}

// Only the first tensor is large. While its errors are beyond most bounds small ones alone run the
// last codec, and tell what calls cost.
TEST(DecideTrial, SmallTensorsTellNoPriceOfALargeOne) {
  std::vector<int64_t> layers = {1000000};
  layers.insert(layers.end(), 30, 2000);
  DecisionWorld world(layers);
  world.us_per_byte = 0.02;
  world.call_us = 160;
  world.first_error_factor = 1000;
  world.Steps(200);
  ASSERT_LT(world.running()[0], 2);
  ASSERT_EQ(TopRung(world.running()), 3);
  world.first_error_factor = 1;
  world.Steps(400);
  EXPECT_LE(world.StepUs(world.running()), 1.1 * world.BestUniformUs());
}

TEST(DecideTrial, StalledStepsOfATrialDoNotCount) {
  DecisionWorld world(Layers());
  world.us_per_byte = 0.006;
  world.noise = 0.02;
  int stalls = 0;
  for (int i = 0; i < 1000; ++i) {
    if (world.comparing() && i % 7 == 0 && stalls++ < 20) world.StallNext(500);
    world.Step();
  }
  EXPECT_GT(stalls, 0);
  EXPECT_LE(world.StepUs(world.running()), 1.1 * world.BestUniformUs());
}

// The steps of a trial, A B B A and so on, are stalled where `stalls` says so.
std::string WhyATrialEnds(const std::string& stalls) {
  DecisionWorld world(Layers());
  world.us_per_byte = 0.006;
  const auto begins = [&] { return world.next_in_trial() == 0; };
  if (!StepUntil(&world, begins, [] {})) return "there is no trial";
  for (size_t i = 0; world.comparing(); ++i) {
    if (i < stalls.size() && stalls[i] == '!') world.StallNext(5);
    world.Step();
  }
  return world.decisions.back().why;
}

TEST(DecideTrial, TellsWhyItEndsWithoutABlockThatCounts) {
  EXPECT_EQ(WhyATrialEnds(".!!"), "the other was far slower");
  for (const char* stalls : {"..!!!", "...!!!"}) {
    EXPECT_EQ(WhyATrialEnds(stalls),
              "the other could not be compared: ranks were late in every block")
        << stalls;
  }
}

// As by an evaluation now and then: what is not measured in one block is measured in the next.
TEST(DecideTrial, GoesOnAfterStallsThatAreNotInARow) {
  EXPECT_THAT(WhyATrialEnds("!!.!.!..!!.!"), testing::HasSubstr("blocks"));
}

TEST(DecideTrial, FindsTheBestPlanWhereStepsAlternate) {
  DecisionWorld world(Layers());
  world.us_per_byte = 0.006;
  world.noise = 0.01;
  world.every_second = 2.5;
  for (int i = 0; i < 400; ++i) {
    world.Step();
    EXPECT_FALSE(world.notices_change()) << i;
  }
  EXPECT_LE(world.StepUs(world.running()), 1.05 * world.BestUniformUs());
}

// What was switched to because of a prediction may be the slower one.
TEST(DecideTrial, APlanIsSavedOnceItHasWonItsComparison) {
  DecisionWorld world(Layers());
  world.us_per_byte = 0.003;
  world.Steps(kWarmUp);
  world.us_per_byte = 0.006;
  Plan before;
  const auto switched = [&] { return world.decisions.back().why == "much faster by prediction"; };
  ASSERT_TRUE(StepUntil(&world, switched, [&] { before = world.running(); }));
  const Plan better = world.running();
  ASSERT_NE(better, before);
  const auto still_before = [&] { EXPECT_EQ(world.Resumed(), before); };
  ASSERT_TRUE(StepUntil(
      &world, [&] { return world.comparing(); }, still_before));
  ASSERT_TRUE(StepUntil(
      &world, [&] { return !world.comparing(); }, still_before));
  ASSERT_EQ(world.running(), better);
  EXPECT_EQ(world.Resumed(), better);
}

}  // namespace
}  // namespace gradwire
