#include "runtime/sim/sim_check.h"
#include "tests/soak/campaign.h"
#include "tests/soak/parallel_trials.h"

namespace gradwire {

CampaignResult RunSeeds(const CampaignOptions& options) {
  int64_t hangs = 0;
  CampaignResult result = RunParallelTrials(
      options, [&](uint64_t trial) { return CheckSimSeed(options.seed + trial); },
      [&](const SimVerdict& verdict) {
        hangs += verdict.hung ? 1 : 0;
        return verdict.complaint;
      });
  result.hangs = hangs;
  result.details = "simulated jobs, numbered from the seed";
  return result;
}

}  // namespace gradwire
