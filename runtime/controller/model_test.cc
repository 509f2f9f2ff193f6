#include "runtime/controller/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

constexpr int kRungs = 3;

// Tensors of `elems`, on the ladder none (4 bytes), bf16 (2 bytes), a codec (half a byte).
JobFacts Job(const std::vector<int64_t>& elems) {
  JobFacts job = {.world_size = 4,
                  .slice_elems = 1 << 16,
                  .candidates = {{"none", false, 1}, {"bf16", false, 1}, {"qsgd", false, 1}}};
  for (size_t t = 0; t < elems.size(); ++t) {
    const auto bytes = static_cast<double>(4 * elems[t]);
    job.tensors.push_back({.id = t,
                           .name = std::to_string(t),
                           .elems = elems[t],
                           .ladder = {{0, bytes}, {1, bytes / 2}, {2, bytes / 8}}});
  }
  return job;
}

// Gradients appear one after the other in the last two thirds of the compute time.
ModelState State(const JobFacts& job, double compute_us, double us_per_byte) {
  ModelState state = {.us_per_message = 10,
                      .us_per_byte = us_per_byte,
                      .compute_us = compute_us,
                      .codec_us_per_elem = {0, 0.0005, 0.002}};
  const auto n = static_cast<double>(job.tensors.size());
  for (size_t t = 0; t < job.tensors.size(); ++t)
    state.ready_us.push_back(compute_us / 3 * (1 + 2 * static_cast<double>(t + 1) / n));
  return state;
}

Allowed All(const JobFacts& job) {
  return Allowed(job.tensors.size(), std::vector<bool>(kRungs, true));
}

Plan Uniform(const JobFacts& job, uint8_t rung) { return Plan(job.tensors.size(), rung); }

TEST(StepModel, WithoutCommunicationAStepIsItsCompute) {
  const JobFacts job = Job({1000, 1000});
  ModelState state = State(job, 5000, 0);
  state.us_per_message = 0;
  EXPECT_DOUBLE_EQ(StepUs(job, state, Uniform(job, 0)), 5000);
}

TEST(StepModel, WhatTheLastGradientWaitsForComesOnTop) {
  const JobFacts job = Job({1000, 1000});
  ModelState state = State(job, 5000, 0.01);
  state.us_per_message = 0;
  // One slice: codec and wire one after the other.
  EXPECT_DOUBLE_EQ(StepUs(job, state, Uniform(job, 0)), 5000 + 4000 * 0.01);
  EXPECT_DOUBLE_EQ(StepUs(job, state, Uniform(job, 2)), 5000 + 500 * 0.01 + 1000 * 0.002);
  EXPECT_DOUBLE_EQ(BusyUs(job, state, Uniform(job, 0)), 2 * 4000 * 0.01);
  EXPECT_DOUBLE_EQ(WireBytes(job, Uniform(job, 1)), 2 * 2000);
}

TEST(StepModel, OperationsWaitForTheOnesBefore) {
  const JobFacts job = Job({1 << 20, 1});
  ModelState state = State(job, 300, 0.001);
  state.us_per_message = 0;
  const double first_us = 4 * (1 << 20) * 0.001;
  EXPECT_NEAR(StepUs(job, state, Uniform(job, 0)), 200 + first_us + 0.004, 1e-6);
}

TEST(StepModel, CodecsStretchTheCompute) {
  const JobFacts job = Job({1 << 20});
  ModelState state = State(job, 10000, 0);
  const double before_us = StepUs(job, state, Uniform(job, 2));
  state.slowdown = 1;
  EXPECT_NEAR(StepUs(job, state, Uniform(job, 2)), before_us + (1 << 20) * 0.002, 1e-6);
}

TEST(OverlappedStep, OfOneTensorIsAsLongAsTheStep) {
  const JobFacts job = Job({1 << 20});
  const ModelState state = State(job, 300, 0.001);
  for (uint8_t rung = 0; rung < kRungs; ++rung) {
    EXPECT_NEAR(OverlappedStepUs(job, state, Uniform(job, rung)),
                StepUs(job, state, Uniform(job, rung)), 1e-6);
  }
}

TEST(OverlappedStep, ACodecWorksBesideTheWireOfAnotherTensor) {
  const JobFacts job = Job({1 << 16, 1 << 16});
  ModelState state = State(job, 0, 0.0005);
  state.us_per_message = 0;
  const Plan plan = {2, 0};
  // The first is encoded while the second is sent; only its few bytes are in the way.
  const double codec_us = (1 << 16) * 0.002, wire_us = 4 * (1 << 16) * 0.0005;
  EXPECT_NEAR(OverlappedStepUs(job, state, plan), std::max(codec_us, wire_us) + wire_us / 8, 1e-6);
  EXPECT_NEAR(StepUs(job, state, plan), codec_us + wire_us / 8 + wire_us, 1e-6);
}

TEST(AllOn, LeavesTensorsThatCannotOnTheLowestRung) {
  JobFacts job = Job({1000, 1000, 1000});
  job.tensors[0].ladder[2] = {};
  job.tensors[1].ladder.pop_back();
  EXPECT_EQ(AllOn(job, 2), (Plan{0, 0, 2}));
  EXPECT_EQ(AllOn(job, 1), (Plan{1, 1, 1}));
}

// Nothing is known of the wire, and codecs take no time.
ModelState Unfitted() { return {.codec_us_per_elem = {0, 0, 0}}; }

// 1000 and 3000 elements: 16000 bytes on the lowest rung, 8000 on the next.
TEST(FitWire, FindsWhatTheModelMeasured) {
  const JobFacts job = Job({1000, 3000});
  ModelState truth = State(job, 700, 0.01);
  truth.codec_us_per_elem = {0, 0, 0};
  const Plan none = AllOn(job, 0), bf16 = AllOn(job, 1);
  ModelState fitted = Unfitted();
  FitWire(job, {none, BusyUs(job, truth, none)}, {bf16, BusyUs(job, truth, bf16)}, &fitted);
  EXPECT_NEAR(fitted.us_per_byte, 0.01, 1e-12);
  EXPECT_NEAR(fitted.us_per_message, 10, 1e-9);
}

// A codec that bounds its plan hides what its bytes save, not what they cost.
TEST(FitWire, KnowsWhatCodecsTake) {
  const JobFacts job = Job({100'000, 300'000});
  ModelState truth = State(job, 700, 0.001);
  for (const double codec_us : {0.001, 0.004, 0.02}) {
    truth.codec_us_per_elem[2] = codec_us;
    const Plan none = AllOn(job, 0), lighter = AllOn(job, 2);
    ModelState fitted = truth;
    fitted.us_per_message = fitted.us_per_byte = 1;
    FitWire(job, {none, BusyUs(job, truth, none)}, {lighter, BusyUs(job, truth, lighter)}, &fitted);
    EXPECT_NEAR(fitted.us_per_byte, 0.001, 1e-7) << codec_us;
    EXPECT_NEAR(fitted.us_per_message, 10, 1e-2) << codec_us;
  }
}

TEST(FitWire, TakesNearlyAllForLatencyWhereFewerBytesAreNoFaster) {
  const JobFacts job = Job({1000, 3000});
  ModelState fitted = Unfitted();
  // A tenth is left to 16,000 bytes: what is nothing no window could scale.
  FitWire(job, {AllOn(job, 0), 100}, {AllOn(job, 1), 130}, &fitted);
  EXPECT_DOUBLE_EQ(fitted.us_per_byte, 10.0 / 16000);
  EXPECT_DOUBLE_EQ(fitted.us_per_message, 45);
  FitWire(job, {AllOn(job, 0), 100}, {AllOn(job, 0), 60}, &fitted);
  EXPECT_DOUBLE_EQ(fitted.us_per_byte, 10.0 / 16000);
  EXPECT_DOUBLE_EQ(fitted.us_per_message, 45);
}

TEST(FitWire, TakesAllForBytesWhereHalfOfThemSavesMoreThanHalf) {
  const JobFacts job = Job({1000, 3000});
  ModelState fitted = Unfitted();
  FitWire(job, {AllOn(job, 0), 160}, {AllOn(job, 1), 10}, &fitted);
  EXPECT_DOUBLE_EQ(fitted.us_per_byte, 0.01);
  EXPECT_NEAR(fitted.us_per_message, 0, 1e-9);
}

// Where bytes take all the time, what rounding leaves of it may be less than nothing; saved, that
// would be damage.
TEST(FitWire, FindsNoLatencyBelowNothing) {
  const JobFacts job = Job({1000, 3001});
  for (int busy_us = 1; busy_us < 1000; ++busy_us) {
    ModelState fitted = Unfitted();
    FitWire(job, {AllOn(job, 0), busy_us / 7.0}, {AllOn(job, 1), 0}, &fitted);
    EXPECT_GE(fitted.us_per_message, 0) << busy_us;
  }
}

// Heavier in bytes, lighter in messages: what codecs do to small tensors.
TEST(FitWire, TellsMessagesFromBytes) {
  JobFacts job = Job({100000, 1000, 50000});
  for (JobTensor& tensor : job.tensors) {
    tensor.ladder[0].messages = tensor.elems == 1000 ? 2 : 6;
    tensor.ladder[1].messages = 6;
  }
  ModelState state = State(job, 5000, 0.02);
  state.us_per_message = 30;
  const MeasuredPlan none = {Uniform(job, 0), BusyUs(job, state, Uniform(job, 0))};
  const MeasuredPlan bf16 = {Uniform(job, 1), BusyUs(job, state, Uniform(job, 1))};
  state.us_per_message = state.us_per_byte = 0;
  FitWire(job, none, bf16, &state);
  EXPECT_NEAR(state.us_per_message, 30, 1e-3);
  EXPECT_NEAR(state.us_per_byte, 0.02, 1e-6);
}

TEST(FitBytes, ExplainsWhatWasMeasuredWithTheLatencyThatIsKnown) {
  const JobFacts job = Job({100000, 1000, 50000});
  const Plan plan = Uniform(job, 1);
  for (const double us_per_message : {0, 20}) {
    for (const double us_per_byte : {0.001, 0.02, 1.0}) {
      ModelState state = State(job, 5000, us_per_byte);
      state.us_per_message = us_per_message;
      const double busy_us = BusyUs(job, state, plan);
      state.us_per_byte = 0.01;
      FitBytes(job, {plan, busy_us}, &state);
      EXPECT_NEAR(state.us_per_byte, us_per_byte, 1e-6 * us_per_byte);
      EXPECT_NEAR(state.us_per_message, us_per_message, 1e-6 * us_per_message);
    }
  }
}

TEST(FitBytes, TakesFromTheLatencyWhatLeavesBytesTooLittle) {
  const JobFacts job = Job({100000, 1000, 50000});
  const Plan plan = Uniform(job, 1);
  ModelState state = State(job, 5000, 0.01);
  state.us_per_message = 1e6;
  const double busy_us = 5000;
  FitBytes(job, {plan, busy_us}, &state);
  EXPECT_GE(WireBytes(job, plan) * state.us_per_byte, 0.099 * busy_us);
  EXPECT_NEAR(BusyUs(job, state, plan), busy_us, 1e-6 * busy_us);
}

TEST(LinkFactor, FindsHowMuchFasterTheLinkIs) {
  const JobFacts job = Job({100000, 1000, 50000});
  ModelState state = State(job, 5000, 0.01);
  state.us_per_message = 300;
  const Plan plan = Uniform(job, 2);
  const double before_us = BusyUs(job, state, plan);
  for (const double factor : {0.1, 0.5, 0.9}) {
    const double after_us = BusyUs(job, ScaleLink(state, factor), plan);
    EXPECT_NEAR(LinkFactor(job, state, plan, after_us / before_us), factor, 1e-6);
  }
  EXPECT_EQ(LinkFactor(job, state, plan, 2), 1);
  EXPECT_EQ(LinkFactor(job, state, plan, 0), 0) << "codecs and messages take longer than that";
}

TEST(BestPlan, IsNoneWhereCommunicationHidesBehindCompute) {
  const JobFacts job = Job({100000, 200000, 300000});
  EXPECT_EQ(BestPlan(job, State(job, 1e6, 0.0001), All(job)), Uniform(job, 0));
}

TEST(BestPlan, CompressesManySmallTensorsToo) {
  const JobFacts job = Job(std::vector<int64_t>(200, 50000));
  const ModelState state = State(job, 1000, 0.08);
  const Plan best = BestPlan(job, state, All(job));
  EXPECT_LT(StepUs(job, state, best), 0.3 * StepUs(job, state, Uniform(job, 0)));
}

TEST(BestPlan, LeavesAloneWhatIsHidden) {
  // The first gradient has all the time in the world; the last one is waited for.
  const JobFacts job = Job({100000, 100000});
  ModelState state = State(job, 100000, 0.01);
  state.ready_us = {1000, 99000};
  const Plan best = BestPlan(job, state, All(job));
  EXPECT_EQ(best[0], 0);
  EXPECT_EQ(best[1], 2);
}

// What ends just before it is waited for does so on no step in which the wire is slower.
TEST(BestPlan, KeepsAReserveOfWhatIsHidden) {
  const JobFacts job = Job({100000, 100000});
  ModelState state = State(job, 100000, 0.24);
  state.ready_us = {1000, 99000};
  const double first_us = job.tensors[0].ladder[0].wire_bytes * state.us_per_byte;
  ASSERT_LT(state.ready_us[0] + first_us, state.ready_us[1]) << "hidden, only just";
  const Plan best = BestPlan(job, state, All(job));
  EXPECT_EQ(best[0], 1);
  EXPECT_EQ(best[1], 2);
}

// Short tensors travel better as they are, in fewer messages. That is no reason to send long ones
// as they are too.
TEST(BestPlan, SpendsNothingOfWhatItSaves) {
  JobFacts job = Job({1000, 1000, 1000, 1000, 1000000});
  for (JobTensor& tensor : job.tensors) {
    const bool is_short = tensor.elems < 10000;
    for (JobRung& rung : tensor.ladder) rung.messages = is_short && rung.candidate == 0 ? 2 : 6;
  }
  ModelState state = State(job, 1000, 0.001);
  state.us_per_message = 150;
  state.codec_us_per_elem = {0, 0.0005, 0.0005};
  const Plan expected = {0, 0, 0, 0, 2};
  ASSERT_GT(StepUs(job, state, Uniform(job, 2)), StepUs(job, state, {0, 0, 0, 0, 1}));
  EXPECT_EQ(BestPlan(job, state, All(job)), expected);
}

// Half a per cent in all, also where others lie between those that go down.
TEST(BestPlan, HardlyGetsLongerByAllThatItTakesDown) {
  std::vector<int64_t> elems;
  for (int layer = 0; layer < 50; ++layer) elems.insert(elems.end(), {1000000, 40000});
  const JobFacts job = Job(elems);
  ModelState state = State(job, 1, 0.001);
  state.us_per_message = 0;
  state.codec_us_per_elem = {0, 0, 0};
  const Plan best = BestPlan(job, state, All(job));
  EXPECT_NE(best, Uniform(job, 2));
  EXPECT_LE(StepUs(job, state, best), 1.006 * StepUs(job, state, Uniform(job, 2)));
}

TEST(BestPlan, UsesOnlyWhatIsAllowed) {
  const JobFacts job = Job(std::vector<int64_t>(10, 100000));
  const ModelState state = State(job, 100, 0.08);
  Allowed allowed = All(job);
  for (size_t t = 0; t < allowed.size(); ++t) allowed[t][2] = t % 2 == 0;
  allowed[3] = {true, false, false};
  const Plan best = BestPlan(job, state, allowed);
  for (size_t t = 0; t < best.size(); ++t) EXPECT_TRUE(allowed[t][best[t]]) << t;
  EXPECT_EQ(best[3], 0);
}

// Against all plans there are.
TEST(BestPlan, IsNearlyTheBestOfAll) {
  SCOPED_TRACE(TestSeedText());
  std::mt19937_64 random(TestSeed());
  const auto draw = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution<double>(std::log(low), std::log(high))(random));
  };
  constexpr int kTensors = 5, kPlans = 3 * 3 * 3 * 3 * 3;
  for (int round = 0; round < 300; ++round) {
    std::vector<int64_t> elems;
    for (int t = 0; t < kTensors; ++t) elems.push_back(static_cast<int64_t>(draw(1e4, 1e7)));
    const JobFacts job = Job(elems);
    ModelState state = State(job, draw(1e2, 1e6), draw(1e-5, 1e-1));
    state.codec_us_per_elem = {0, draw(1e-5, 1e-2), draw(1e-5, 1e-2)};
    double best_us = StepUs(job, state, Uniform(job, 0));
    for (int number = 0; number < kPlans; ++number) {
      Plan plan;
      for (int rest = number, t = 0; t < kTensors; ++t, rest /= kRungs)
        plan.push_back(static_cast<uint8_t>(rest % kRungs));
      best_us = std::min(best_us, StepUs(job, state, plan));
    }
    const double found_us = StepUs(job, state, BestPlan(job, state, All(job)));
    EXPECT_LE(found_us, 1.06 * best_us) << "round " << round;
    EXPECT_LE(found_us, 1.001 * StepUs(job, state, Uniform(job, 0))) << "round " << round;
  }
}

}  // namespace
}  // namespace gradwire
