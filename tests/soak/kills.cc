#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/hash.h"
#include "tests/fault/fault_trial.h"
#include "tests/soak/campaign.h"

namespace gradwire {
namespace {

// Killing is what happens most.
FaultTrial TrialOf(uint64_t seed) {
  constexpr Fault kFaults[] = {Fault::kKill, Fault::kKill, Fault::kKill,
                               Fault::kKill, Fault::kStop, Fault::kAbort};
  const Fault fault = kFaults[seed % 6];
  Phase phase = static_cast<Phase>(seed / 6 % kPhases);
  // Before it has started nothing can be aborted, and who stops while leaving is just slow.
  if (phase == Phase::kInit && fault == Fault::kAbort) phase = Phase::kCollectives;
  if (phase == Phase::kFinalize && fault == Fault::kStop) phase = Phase::kSteps;
  return RandomTrial(seed, fault, phase);
}

}  // namespace

CampaignResult RunKills(const CampaignOptions& options) {
  CampaignResult result;
  int64_t told = 0, worst_error_ns = 0, worst_return_ns = 0;
  const Deadline end = EndOf(options);
  for (; GoesOn(options, result, end); ++result.trials) {
    const uint64_t seed =
        Hasher().Add(options.seed).Add(static_cast<uint64_t>(result.trials)).digest();
    const FaultTrial trial = TrialOf(seed);
    const TrialResult one = RunTrial(trial);
    told += one.told;
    worst_error_ns = std::max(worst_error_ns, one.worst_error_ns);
    worst_return_ns = std::max(worst_return_ns, one.worst_return_ns);
    result.hangs += one.hung ? 1 : 0;
    if (one.complaint.empty()) continue;
    ++result.failures;
    std::fprintf(stderr, "trial %lld, %s: %s", static_cast<long long>(result.trials),
                 trial.Describe().c_str(), one.complaint.c_str());
  }
  result.details = fmt::format(
      "{} survivors told who, the last after {:.0f} ms; longest abort or destroy {:.0f} ms", told,
      static_cast<double>(worst_error_ns) / 1e6, static_cast<double>(worst_return_ns) / 1e6);
  return result;
}

}  // namespace gradwire
