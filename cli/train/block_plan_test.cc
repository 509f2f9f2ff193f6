#include "cli/train/block_plan.h"

#include <gtest/gtest.h>

#include <set>

namespace gradwire {
namespace {

TEST(SplitSteps, KeepsTheirNumber) {
  EXPECT_EQ(SplitSteps(30, 5), (std::vector<int>{5, 5, 5, 5, 5, 5}));
  EXPECT_EQ(SplitSteps(12, 5), (std::vector<int>{6, 6}));
  EXPECT_EQ(SplitSteps(13, 5), (std::vector<int>{7, 6}));
  EXPECT_EQ(SplitSteps(3, 5), (std::vector<int>{3}));
}

TEST(PlanBlocks, EveryRoundHasEverySpecOnce) {
  const std::vector<Block> blocks = PlanBlocks({5, 6, 7, 8}, 3, 1);
  ASSERT_EQ(blocks.size(), 12u);
  for (size_t b = 0; b < blocks.size(); b += 3) {
    std::set<int> specs;
    for (size_t i = b; i < b + 3; ++i) {
      EXPECT_EQ(blocks[i].round, static_cast<int>(b / 3));
      EXPECT_EQ(blocks[i].steps, 5 + blocks[i].round);
      specs.insert(blocks[i].spec);
    }
    EXPECT_EQ(specs, (std::set<int>{0, 1, 2}));
  }
}

std::vector<int> Order(int specs, uint64_t seed) {
  std::vector<int> order;
  for (const Block& block : PlanBlocks(std::vector<int>(20, 2), specs, seed)) {
    order.push_back(block.spec);
  }
  return order;
}

TEST(PlanBlocks, TheSeedFixesTheOrder) {
  EXPECT_EQ(Order(3, 1), Order(3, 1));
  EXPECT_NE(Order(3, 1), Order(3, 2));
}

// In 20 fair rounds of three, one that is never first has probability 0.0003.
TEST(PlanBlocks, EverySpecIsFirstInSomeRound) {
  std::set<int> first;
  const std::vector<int> order = Order(3, 1);
  for (size_t i = 0; i < order.size(); i += 3) first.insert(order[i]);
  EXPECT_EQ(first.size(), 3u);
}

}  // namespace
}  // namespace gradwire
