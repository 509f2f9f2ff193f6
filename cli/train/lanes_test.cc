#include "cli/train/lanes.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

TEST(LanesOf, FixedCodecsShareALaneAndControllersDoNot) {
  const std::vector<std::string> specs = {"none", "auto", "bf16", "auto(error=0.2)"};
  const Lanes lanes = LanesOf(specs);
  EXPECT_EQ(lanes.count, 3);
  EXPECT_EQ(lanes.of_spec, (std::vector<int>{0, 1, 0, 2}));
  EXPECT_EQ(lanes.SpecsOf(0), (std::vector<int>{0, 2}));
  EXPECT_EQ(lanes.SpecsOf(2), (std::vector<int>{3}));
}

TEST(LanesOf, OneIsEnoughForOneKind) {
  EXPECT_EQ(LanesOf(std::vector<std::string>{"none", "bf16"}).count, 1);
  EXPECT_EQ(LanesOf(std::vector<std::string>{"auto"}).count, 1);
}

}  // namespace
}  // namespace gradwire
