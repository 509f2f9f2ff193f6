#include <cstdio>

#include "tests/conformance/determinism_world.h"
#include "tests/soak/campaign.h"

namespace gradwire {

CampaignResult RunTimings(const CampaignOptions& options) {
  CampaignResult result;
  const Deadline end = EndOf(options);
  for (; GoesOn(options, result, end); ++result.trials) {
    const std::string complaint = CheckTiming(options.seed, static_cast<uint64_t>(result.trials));
    if (complaint.empty()) continue;
    ++result.failures;
    std::fprintf(stderr, "%s\n", complaint.c_str());
  }
  result.details = "each simulated with and without delays";
  return result;
}

}  // namespace gradwire
