// Each campaign for a few trials.
#include <gtest/gtest.h>

#include <string>

#include "tests/lib/test_seed.h"
#include "tests/soak/campaign.h"

namespace gradwire {
namespace {

TEST(Soak, KillsAreToldAndNobodyHangs) {
  SCOPED_TRACE(TestSeedText());
  const CampaignResult result = RunKills({.trials = 6, .seconds = 30, .seed = TestSeed()});
  EXPECT_GT(result.trials, 0);
  EXPECT_EQ(result.failures, 0) << result.details;
  EXPECT_EQ(result.hangs, 0);
}

TEST(Soak, SimulatedJobsEndWell) {
  SCOPED_TRACE(TestSeedText());
  const CampaignResult result = RunSeeds({.trials = 50, .seconds = 30, .seed = TestSeed()});
  EXPECT_GT(result.trials, 0);
  EXPECT_EQ(result.failures, 0) << result.details;
  EXPECT_EQ(result.hangs, 0);
}

// What it finds is for auto_oracle_test: one training may fail where 300 pass.
TEST(Soak, OraclesAreAsked) {
  const CampaignResult result = RunOracles({.trials = 1});
  EXPECT_EQ(result.trials, 1);
  EXPECT_NE(result.details.find("0 baselines missed"), std::string::npos) << result.details;
}

TEST(Soak, TimingsChangeNothing) {
  SCOPED_TRACE(TestSeedText());
  const CampaignResult result = RunTimings({.trials = 20, .seed = TestSeed()});
  EXPECT_EQ(result.trials, 20);
  EXPECT_EQ(result.failures, 0);
}

TEST(Soak, RandomConfigurationsGiveRightResults) {
  SCOPED_TRACE(TestSeedText());
  const CampaignResult result = RunConfigurations({.trials = 6, .seconds = 30, .seed = TestSeed()});
  EXPECT_GT(result.trials, 0);
  EXPECT_EQ(result.failures, 0) << result.details;
  EXPECT_EQ(result.hangs, 0);
}

}  // namespace
}  // namespace gradwire
