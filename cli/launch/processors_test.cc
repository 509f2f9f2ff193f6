#include "cli/launch/processors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "runtime/start/usable_cores.h"

namespace gradwire {
namespace {

using testing::ElementsAre;

TEST(DivideCores, NeighboursStayTogether) {
  const std::vector<int> cores = {0, 1, 2, 3};
  EXPECT_THAT(DivideCores(cores, 2), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

// As in a container that has been given some.
TEST(DivideCores, EachOfThoseAllowedHasOneRank) {
  const std::vector<int> cores = {2, 5, 6, 11, 1500};
  EXPECT_THAT(DivideCores(cores, 3),
              ElementsAre(ElementsAre(2, 5), ElementsAre(6, 11), ElementsAre(1500)));
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

TEST(AllowedCores, AreMoreThanThoseThatAThreadIsHeldTo) {
  const std::vector<int> all = AllowedCores(), one = {all.back()};
  std::vector<int> allowed, held;
  std::thread([&] {
    EXPECT_TRUE(KeepTo(one));
    allowed = AllowedCores();
    held = UsableCores();
  }).join();
  EXPECT_EQ(allowed, all);
  EXPECT_EQ(held, one) << "asking changed it";
}

}  // namespace
}  // namespace gradwire
