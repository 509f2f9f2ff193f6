#include "tests/conformance/determinism_world.h"
#include "tests/soak/campaign.h"
#include "tests/soak/parallel_trials.h"

namespace gradwire {

CampaignResult RunTimings(const CampaignOptions& options) {
  CampaignResult result = RunParallelTrials(
      options, [&](uint64_t trial) { return CheckTiming(options.seed, trial); },
      [](const std::string& complaint) { return complaint; });
  result.details = "each simulated with and without delays";
  return result;
}

}  // namespace gradwire
