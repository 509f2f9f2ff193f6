#include <gtest/gtest.h>

#include <string>

#include "tests/soak/campaign.h"

namespace gradwire {
namespace {

// What it finds is for auto_oracle_test: one training may fail where 300 pass.
TEST(OracleCampaign, AsksTheOracle) {
  const CampaignResult result = RunOracles({.trials = 1});
  EXPECT_EQ(result.trials, 1);
  EXPECT_NE(result.details.find("0 baselines missed"), std::string::npos) << result.details;
}

TEST(SafetyCampaign, ComparesWithNone) {
  const CampaignResult result = RunSafety({.trials = 1});
  EXPECT_EQ(result.trials, 1);
  EXPECT_EQ(result.failures, 0);
  EXPECT_NE(result.details.find("least speed of 500 steps"), std::string::npos) << result.details;
}

}  // namespace
}  // namespace gradwire
