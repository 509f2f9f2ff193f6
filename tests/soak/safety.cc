#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/measure/quantile.h"
#include "runtime/sim/auto_safety.h"
#include "tests/soak/campaign.h"
#include "tests/soak/parallel_trials.h"

namespace gradwire {
namespace {

constexpr int kSteps = 1560;
constexpr double kLeastSpeed = 0.98;

}  // namespace

CampaignResult RunSafety(const CampaignOptions& options) {
  std::vector<double> speeds;
  CampaignResult result = RunParallelTrials(
      options, [&](uint64_t trial) { return AskSafety(options.seed + trial, kSteps); },
      [&](const SafetyRow& row) {
        speeds.push_back(row.least_speed);
        return row.least_speed < kLeastSpeed ? row.Text() : std::string();
      });
  if (result.trials == 0) return result;
  std::sort(speeds.begin(), speeds.end());
  result.details = fmt::format(
      "least speed of 500 steps in parts of that of none: median {:.3f}, 5 % below {:.3f}, least "
      "{:.4f}",
      Quantile(speeds, 0.5), Quantile(speeds, 0.05), speeds.front());
  return result;
}

}  // namespace gradwire
