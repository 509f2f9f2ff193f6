#include "cli/measure/machine_state.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

#include "cli/launch/processors.h"
#include "runtime/start/usable_cores.h"

namespace gradwire {
namespace {

TEST(PingPong, IsATimeOfNanosecondsToMicroseconds) {
  const std::optional<double> us = PingPongUs(SteadyClock(), false);
  if (!us) GTEST_SKIP() << "one core";
  EXPECT_GT(*us, 0.005);
  EXPECT_LT(*us, 1000);
}

// As `gradwire run` holds ranks, and `taskset` a program.
TEST(PingPong, OfARankHeldToOneCoreIsWithAnotherRanks) {
  if (AllowedCores().size() < 2) GTEST_SKIP() << "one core";
  std::optional<double> of_rank, of_program;
  std::thread([&] {
    const std::vector<int> one = {UsableCores()[0]};
    ASSERT_TRUE(KeepTo(one));
    of_rank = PingPongUs(SteadyClock(), true);
    of_program = PingPongUs(SteadyClock(), false);
  }).join();
  EXPECT_TRUE(of_rank.has_value());
  EXPECT_FALSE(of_program.has_value());
}

TEST(MachineStateText, NamesTheState) {
  EXPECT_EQ(MachineStateText(0.114), "0.11 us (fast)");
  EXPECT_EQ(MachineStateText(0.55), "0.55 us (slow)");
  EXPECT_EQ(MachineStateText(std::nullopt), "not measured");
}

}  // namespace
}  // namespace gradwire
