#include "cli/train/step_memory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace gradwire {
namespace {

const ModelShapes& Model() {
  static const ModelShapes model = {
      .name = "two",
      .tensors = {{.name = "a", .lengths = {5, 3}}, {.name = "b", .lengths = {100, 100}}}};
  return model;
}

TEST(StepMemory, TensorsDoNotOverlap) {
  StepMemory memory;
  ASSERT_TRUE(memory.Make(Model(), 1, 0).ok());
  EXPECT_GE(memory.gradient(1, 0) - memory.gradient(0, 0), 15);
  EXPECT_GE(memory.sum(1) - memory.sum(0), 15);
  EXPECT_EQ(memory.Of(0, 0).in.size(), 15u);
  const ComputeMemory all = memory.OfAll(0);
  EXPECT_EQ(&*all.in.end(),
            memory.Of(1, 0).in.data() + (all.in.size() - (memory.sum(1) - memory.sum(0))));
  EXPECT_EQ(all.in.size(), all.out.size());
}

TEST(StepMemory, GradientsOfConsecutiveStepsDiffer) {
  StepMemory memory;
  ASSERT_TRUE(memory.Make(Model(), 1, 0).ok());
  EXPECT_NE(memory.gradient(1, 0)[0], memory.gradient(1, 1)[0]);
  EXPECT_EQ(memory.gradient(1, 0), memory.gradient(1, 2));
}

TEST(StepMemory, EnergyIsThatOfTheGradient) {
  StepMemory memory;
  ASSERT_TRUE(memory.Make(Model(), 1, 0).ok());
  const auto gradient = memory.Of(1, 0).in;
  const double energy = std::inner_product(gradient.begin(), gradient.end(), gradient.begin(), 0.0);
  EXPECT_NEAR(energy / memory.energy(1), 1, 0.1);  // 10,000 squares: 0.014 is one deviation
}

}  // namespace
}  // namespace gradwire
