#include <fmt/format.h>

#include <cstdio>

#include "runtime/sim/sim_check.h"
#include "tests/soak/campaign.h"

namespace gradwire {

CampaignResult RunSeeds(const CampaignOptions& options) {
  CampaignResult result;
  const Deadline end = EndOf(options);
  for (; GoesOn(options, result, end); ++result.trials) {
    const SimVerdict verdict = CheckSimSeed(options.seed + static_cast<uint64_t>(result.trials));
    result.hangs += verdict.hung ? 1 : 0;
    if (verdict.complaint.empty()) continue;
    ++result.failures;
    std::fprintf(stderr, "%s\n", verdict.complaint.c_str());
  }
  result.details = "simulated jobs, numbered from the seed";
  return result;
}

}  // namespace gradwire
