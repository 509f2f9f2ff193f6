// Each campaign that draws its trials, for a few of them.
#include <gtest/gtest.h>

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
