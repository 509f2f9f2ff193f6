#include "cli/train/computation.h"

#include <gtest/gtest.h>

#include <vector>

namespace gradwire {
namespace {

constexpr int64_t kStepNs = 200'000;

struct Arrays {
  std::vector<float> in = std::vector<float>(40'000, 1);
  std::vector<float> out = std::vector<float>(40'000, 0);

  ComputeMemory memory() { return {in, out}; }
};

class ComputationTest : public testing::TestWithParam<ComputeKind> {};

// Processor time never runs ahead of the clock, so this bound holds for both kinds.
TEST_P(ComputationTest, TakesAtLeastItsTimeInEveryStep) {
  Arrays arrays;
  const auto computation = MakeComputation(GetParam());
  for (int step = 0; step < 2; ++step) {
    const int64_t begin_ns = SteadyClock().NowNs();
    computation->Begin();
    computation->AdvanceTo(kStepNs / 2, arrays.memory());
    computation->AdvanceTo(kStepNs, arrays.memory());
    EXPECT_GE(SteadyClock().NowNs() - begin_ns, kStepNs);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ComputationTest,
                         testing::Values(ComputeKind::kDevice, ComputeKind::kHost),
                         [](const auto& info) {
                           return info.param == ComputeKind::kDevice ? "Device" : "Host";
                         });

TEST(HostComputation, GoesOverAllOfTheMemory) {
  Arrays arrays;
  const auto computation = MakeComputation(ComputeKind::kHost);
  computation->Begin();
  // Until it has been everywhere: how much that takes depends on the machine.
  for (int64_t ns = kStepNs; arrays.out.back() == 0; ns += kStepNs) {
    computation->AdvanceTo(ns, arrays.memory());
  }
  EXPECT_GE(arrays.out.front(), 1);
  EXPECT_GE(arrays.out[20'000], 1);
}

TEST(HostComputation, WhatIsDoneTakesNoMoreWork) {
  Arrays arrays;
  const auto computation = MakeComputation(ComputeKind::kHost);
  computation->Begin();
  computation->AdvanceTo(0, arrays.memory());
  EXPECT_EQ(arrays.out.front(), 0);
  computation->AdvanceTo(kStepNs, arrays.memory());
  const std::vector<float> before = arrays.out;
  computation->AdvanceTo(kStepNs / 2, arrays.memory());
  EXPECT_EQ(arrays.out, before);
}

}  // namespace
}  // namespace gradwire
