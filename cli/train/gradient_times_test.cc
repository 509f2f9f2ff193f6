#include "cli/train/gradient_times.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

TEST(GradientTimes, LastTensorFirstByShareOfElements) {
  const ModelShapes model = {"m", {{"a", {6}}, {"b", {1, 3}}, {"c", {1}}}};
  EXPECT_EQ(GradientTimes(model, 1500), (std::vector<int64_t>{1500, 900, 600}));
}

TEST(GradientTimes, NoComputingIsNoTime) {
  EXPECT_EQ(GradientTimes({"m", {{"a", {6}}, {"b", {2}}}}, 0), (std::vector<int64_t>{0, 0}));
}

}  // namespace
}  // namespace gradwire
