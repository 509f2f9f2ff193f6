#include "runtime/controller/observation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

namespace gradwire {
namespace {

StepObservation Observed() {
  return {
      .step = 12,
      .turn = 13,
      .step_us = 100,
      .blocked_us = 30,
      .busy_us = 60,
      .tensors = {
          {.tensor = 5, .ready_us = 40, .codec_us = 3, .energy = 8, .error = 1, .sum_energy = 5},
          {.tensor = 6, .ready_us = 20, .codec_us = 1, .energy = 2, .error = 0.5f}}};
}

TEST(Observation, ReadsBack) {
  StepObservation bare = Observed();
  bare.tensors.clear();
  for (const StepObservation& observation : {Observed(), bare}) {
    const StatusOr<StepObservation> read = DecodeObservation(EncodeObservation(observation));
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(*read, observation);
  }
}

TEST(Observation, DamagedBytesAreRefused) {
  const std::string good = EncodeObservation(Observed());
  EXPECT_EQ(DecodeObservation("").status().code(), gwDataCorrupt);
  EXPECT_EQ(DecodeObservation(good + "x").status().code(), gwDataCorrupt);
  EXPECT_EQ(DecodeObservation(good.substr(0, good.size() - 1)).status().code(), gwDataCorrupt);
  for (const float bad : {-1.0f, std::nanf(""), INFINITY}) {
    StepObservation observation = Observed();
    observation.step_us = bad;
    EXPECT_EQ(DecodeObservation(EncodeObservation(observation)).status().code(), gwDataCorrupt);
    observation = Observed();
    observation.tensors[1].codec_us = bad;
    EXPECT_EQ(DecodeObservation(EncodeObservation(observation)).status().code(), gwDataCorrupt);
    observation = Observed();
    observation.tensors[0].sum_energy = bad;
    EXPECT_EQ(DecodeObservation(EncodeObservation(observation)).status().code(), gwDataCorrupt);
  }
}

TEST(Observation, TheSlowestRankTellsTimeTheLastOneTellsBusiness) {
  std::vector<StepObservation> ranks = {Observed(), Observed()};
  ranks[1].step_us = 90;
  ranks[1].blocked_us = 5;  // it computes for 85, the other for 70
  ranks[1].busy_us = 33;
  ranks[1].tensors[0].ready_us = 70;
  ranks[1].tensors[0].codec_us = 9;
  const StatusOr<StepInput> all = Combine(ranks);
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->step, 12u);
  EXPECT_EQ(all->step_us, 100);
  EXPECT_EQ(all->compute_us, 85);
  EXPECT_EQ(all->busy_us, 33);
  EXPECT_EQ(all->tensors[0], (TensorObservation{5, 70, 9, 16, 2, 10}));
  EXPECT_EQ(all->tensors[1], (TensorObservation{6, 20, 1, 4, 1}));
}

TEST(Observation, WhereTheSlowestRankWaitsLongerThatIsBusiness) {
  std::vector<StepObservation> ranks = {Observed(), Observed()};
  ranks[0].blocked_us = 40, ranks[0].busy_us = 10;  // it computes for 60
  ranks[1].blocked_us = 25, ranks[1].busy_us = 20;  // 75
  EXPECT_EQ(Combine(ranks)->busy_us, 25);
  ranks[0].busy_us = 30;
  ranks[1].busy_us = 35;
  EXPECT_EQ(Combine(ranks)->busy_us, 30);
}

TEST(Observation, OfRanksAsSlowTheOneThatWaitsLessTellsBusiness) {
  std::vector<StepObservation> ranks = {Observed(), Observed()};
  ranks[0].step_us = 100, ranks[0].blocked_us = 40, ranks[0].busy_us = 10;  // both compute for 60
  ranks[1].step_us = 90, ranks[1].blocked_us = 30, ranks[1].busy_us = 20;
  EXPECT_EQ(Combine(ranks)->busy_us, 30);
  std::swap(ranks[0], ranks[1]);
  EXPECT_EQ(Combine(ranks)->busy_us, 30);
}

TEST(Observation, EnergiesStayFinite) {
  EXPECT_EQ(EnergyOf(8), 8);
  EXPECT_EQ(EnergyOf(kMostEnergy), kMostEnergy);
  for (const double large : {1e39, double{INFINITY}, std::nan("")})
    EXPECT_EQ(EnergyOf(large), kMostEnergy) << large;
  std::vector<StepObservation> ranks = {Observed(), Observed()};
  ranks[0].tensors[0].energy = ranks[1].tensors[0].energy = 3e38f;
  EXPECT_EQ(Combine(ranks)->tensors[0].energy, kMostEnergy);
  EXPECT_EQ(Combine(ranks)->tensors[0].sum_energy, 10);
}

TEST(Observation, OfDifferentStepsOrTensorsIsRefused) {
  const auto code_with = [](auto change) {
    std::vector<StepObservation> ranks = {Observed(), Observed()};
    change(&ranks[1]);
    return Combine(ranks).status().code();
  };
  EXPECT_EQ(code_with([](StepObservation* o) { o->step = 11; }), gwMismatch);
  EXPECT_EQ(code_with([](StepObservation* o) { o->turn = 11; }), gwMismatch);
  EXPECT_EQ(code_with([](StepObservation* o) { o->tensors.pop_back(); }), gwMismatch);
  EXPECT_EQ(code_with([](StepObservation* o) { o->tensors[1].tensor = 7; }), gwMismatch);
  EXPECT_EQ(code_with([](StepObservation*) {}), gwSuccess);
  EXPECT_EQ(Combine({}).status().code(), gwMismatch);
}

}  // namespace
}  // namespace gradwire
