#include "cli/measure/machine_state.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

TEST(PingPong, IsATimeOfNanosecondsToMicroseconds) {
  const std::optional<double> us = PingPongUs(SteadyClock());
  if (!us) GTEST_SKIP() << "one core";
  EXPECT_GT(*us, 0.005);
  EXPECT_LT(*us, 1000);
}

TEST(MachineStateText, NamesTheState) {
  EXPECT_EQ(MachineStateText(0.114), "0.11 us (fast)");
  EXPECT_EQ(MachineStateText(0.55), "0.55 us (slow)");
  EXPECT_EQ(MachineStateText(std::nullopt), "not measured");
}

}  // namespace
}  // namespace gradwire
