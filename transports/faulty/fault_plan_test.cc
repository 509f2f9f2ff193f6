#include "transports/faulty/fault_plan.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

TEST(FaultPlanTest, EmptyTextIsTheDefault) {
  auto plan = ParseFaultPlan("");
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->seed, 1u);
  EXPECT_EQ(plan->delay, 0);
  EXPECT_EQ(plan->corrupt_at, -1);
}

TEST(FaultPlanTest, EveryFieldHasAName) {
  auto plan = ParseFaultPlan(
      "seed=18446744073709551615,delay=0.25,delay_polls=3,full=1,late_sent=0.5,corrupt=1e-6,"
      "corrupt_at=7,corrupt_sealed_at=8,duplicate=0.125,lose=0.0625,lose_at=9,"
      "run_short_at=10");
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_EQ(plan->seed, UINT64_MAX);
  EXPECT_EQ(plan->delay, 0.25);
  EXPECT_EQ(plan->delay_polls, 3);
  EXPECT_EQ(plan->full, 1);
  EXPECT_EQ(plan->late_sent, 0.5);
  EXPECT_EQ(plan->corrupt, 1e-6);
  EXPECT_EQ(plan->corrupt_at, 7);
  EXPECT_EQ(plan->corrupt_sealed_at, 8);
  EXPECT_EQ(plan->duplicate, 0.125);
  EXPECT_EQ(plan->lose, 0.0625);
  EXPECT_EQ(plan->lose_at, 9);
  EXPECT_EQ(plan->run_short_at, 10);
}

TEST(FaultPlanTest, RefusesWhatItDoesNotUnderstand) {
  for (const char* text : {"delay", "delay=", "delay=x", "delay=1.5", "delay=-0.1", "delay=nan",
                           "delay=0.5x", "seed=-1", "delay_polls=0", "corrupt_at=-2",
                           "corrupt_at=1.5", "seed=1,", ",seed=1", "seed=1 ", "=1"}) {
    EXPECT_EQ(ParseFaultPlan(text).status().code(), gwInvalidArgument) << text;
  }
}

TEST(FaultPlanTest, SuggestsTheNearestName) {
  const Status status = ParseFaultPlan("dellay=0.5").status();
  EXPECT_NE(status.detail().hint.find("'delay'?"), std::string::npos) << status.ToString();
  const Status far = ParseFaultPlan("quux=1").status();
  EXPECT_EQ(far.detail().hint.find("There are: seed, "), 0u) << far.ToString();
}

TEST(FaultPlanTest, SpecNamesTheInnerTransport) {
  auto spec = ParseFaultySpec("faulty(loopback,delay=0.5)");
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->inner, "loopback");
  EXPECT_EQ(spec->plan.delay, 0.5);

  spec = ParseFaultySpec("faulty(faulty(ucx,seed=2,full=0.1),seed=3)");
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->inner, "faulty(ucx,seed=2,full=0.1)");
  EXPECT_EQ(spec->plan.seed, 3u);

  EXPECT_TRUE(ParseFaultySpec("faulty(loopback)").ok());
  EXPECT_FALSE(ParseFaultySpec("loopback").ok());
  EXPECT_FALSE(ParseFaultySpec("faulty(loopback").ok());
}

}  // namespace
}  // namespace gradwire
