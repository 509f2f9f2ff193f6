#include "runtime/start/usable_cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

namespace gradwire {
namespace {

std::string Text(const std::vector<int>& cores) { return EncodeCores(cores); }

TEST(CountCores, CountsEachOnceHoweverManyMayUseIt) {
  EXPECT_EQ(CountCores(std::vector<std::string>{}), 0);
  EXPECT_EQ(CountCores(std::vector{Text({})}), 0);
  EXPECT_EQ(CountCores(std::vector{Text({0, 1, 2, 3}), Text({0, 1, 2, 3})}), 4);
  EXPECT_EQ(CountCores(std::vector{Text({0}), Text({1}), Text({130})}), 3) << "pinned to one each";
  EXPECT_EQ(CountCores(std::vector{Text({5}), Text({5}), Text({5})}), 1) << "all on the same";
  EXPECT_EQ(CountCores(std::vector{Text({0, 9}), Text({9, 1000})}), 3);
}

TEST(CountCores, TakesAnyText) {
  EXPECT_EQ(CountCores(std::vector<std::string>{"xyz \n-", "1", std::string(1, '\0')}), 1);
}

TEST(EncodeCores, GivesFourCoresADigit) {
  EXPECT_EQ(Text({0, 1, 2, 3, 4}), "f1");
  EXPECT_EQ(Text({11}), "008");
}

TEST(UsableCores, FollowsWhatTheThreadIsHeldTo) {
  const std::vector<int> all = UsableCores();
  ASSERT_FALSE(all.empty());
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
  std::vector<int> held;
  std::thread([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(all.back(), &set);
    EXPECT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
    held = UsableCores();
  }).join();
  EXPECT_EQ(held, std::vector{all.back()});
}

}  // namespace
}  // namespace gradwire
