#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/measure/quantile.h"
#include "runtime/sim/auto_oracle.h"
#include "tests/soak/campaign.h"
#include "tests/soak/parallel_trials.h"

namespace gradwire {
namespace {

constexpr double kMostRegret = 0.05;
constexpr double kMostNoneRegret = 0.02;

bool Fails(const OracleRow& row) {
  return row.last_regret > kMostRegret || row.none_regret > kMostNoneRegret || row.misses_baseline;
}

}  // namespace

CampaignResult RunOracles(const CampaignOptions& options) {
  std::vector<double> last, whole, none;
  int64_t missed = 0;
  CampaignResult result = RunParallelTrials(
      options, [&](uint64_t trial) { return AskOracle(options.seed + trial); },
      [&](const OracleRow& row) {
        last.push_back(row.last_regret);
        whole.push_back(row.whole_regret);
        none.push_back(row.none_regret);
        missed += row.misses_baseline ? 1 : 0;
        return Fails(row) ? row.Text() : std::string();
      });
  if (result.trials == 0) return result;
  for (std::vector<double>* values : {&last, &whole, &none})
    std::sort(values->begin(), values->end());
  result.details = fmt::format(
      "regret of the last 100 steps: median {:.2f} %, p95 {:.2f} %, most {:.2f} %; of the whole "
      "run: "
      "median {:.2f} %, p95 {:.2f} %; against none at most {:.2f} %; {} baselines missed",
      100 * Quantile(last, 0.5), 100 * Quantile(last, 0.95), 100 * Quantile(last, 1),
      100 * Quantile(whole, 0.5), 100 * Quantile(whole, 0.95), 100 * Quantile(none, 1), missed);
  return result;
}

}  // namespace gradwire
