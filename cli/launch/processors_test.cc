#include "cli/launch/processors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "runtime/start/usable_cores.h"

namespace gradwire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(DivideCores, NeighboursStayTogether) {
  const std::vector<int> cores = {0, 1, 2, 3};
  const auto parts = DivideCores(cores, 2);
  ASSERT_TRUE(parts.ok()) << parts.status().ToString();
  EXPECT_THAT(*parts, ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

// As in a container that has been given some.
TEST(DivideCores, EachOfThoseAllowedHasOneRank) {
  const std::vector<int> cores = {2, 5, 6, 11, 1500};
  const auto parts = DivideCores(cores, 3);
  ASSERT_TRUE(parts.ok()) << parts.status().ToString();
  EXPECT_THAT(*parts, ElementsAre(ElementsAre(2, 5), ElementsAre(6, 11), ElementsAre(1500)));
}

TEST(DivideCores, RefusesMoreRanksThanThereAre) {
  const std::vector<int> cores = {0, 1};
  EXPECT_THAT(DivideCores(cores, 3).status().ToString(),
              HasSubstr("2 processors cannot be divided among 3 ranks"));
}

TEST(KeepTo, HoldsAThreadToThem) {
  const std::vector<int> all = UsableCores(), one = {all.back()};
  std::vector<int> held;
  std::thread([&] {
    EXPECT_TRUE(KeepTo(one));
    held = UsableCores();
    EXPECT_FALSE(KeepTo({})) << "nowhere to run";
  }).join();
  EXPECT_EQ(held, one);
  EXPECT_EQ(UsableCores(), all);
}

}  // namespace
}  // namespace gradwire
