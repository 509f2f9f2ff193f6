#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "cli/measure/quantile.h"
#include "runtime/sim/auto_safety.h"
#include "tests/soak/campaign.h"

namespace gradwire {
namespace {

constexpr int kSteps = 1560;
constexpr double kLeastSpeed = 0.98;

}  // namespace

CampaignResult RunSafety(const CampaignOptions& options) {
  CampaignResult result;
  std::vector<double> speeds;
  const Deadline end = EndOf(options);
  for (; GoesOn(options, result, end); ++result.trials) {
    const SafetyRow row = AskSafety(options.seed + static_cast<uint64_t>(result.trials), kSteps);
    speeds.push_back(row.least_speed);
    if (row.least_speed >= kLeastSpeed) continue;
    ++result.failures;
    std::fprintf(stderr, "%s\n", row.Text().c_str());
  }
  if (result.trials == 0) return result;
  std::sort(speeds.begin(), speeds.end());
  result.details = fmt::format(
      "least speed of 500 steps in parts of that of none: median {:.3f}, 5 % below {:.3f}, least "
      "{:.4f}",
      Quantile(speeds, 0.5), Quantile(speeds, 0.05), speeds.front());
  return result;
}

}  // namespace gradwire
