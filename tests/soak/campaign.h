// The campaigns of the long test: each runs trials until its number or its time is reached.
#ifndef GRADWIRE_TESTS_SOAK_CAMPAIGN_H_
#define GRADWIRE_TESTS_SOAK_CAMPAIGN_H_

#include <cstdint>
#include <string>

#include "base/clock.h"

namespace gradwire {

struct CampaignOptions {
  int64_t trials = 0;
  int64_t seconds = 0;  // at most; 0: no limit
  uint64_t seed = 1;
};

struct CampaignResult {
  int64_t trials = 0, failures = 0, hangs = 0;
  std::string details;  // beside the numbers, for the summary's line
};

// When a campaign that begins now must have begun its last trial.
inline Deadline EndOf(const CampaignOptions& options) {
  if (options.seconds == 0) return Deadline::Never();
  return Deadline::After(SteadyClock(), options.seconds * kNsPerSecond);
}

// Whether there is another trial: a campaign that ends at `end` has neither had all nor used up its
// time.
inline bool GoesOn(const CampaignOptions& options, const CampaignResult& result, Deadline end) {
  return result.trials < options.trials && !end.Expired(SteadyClock());
}

// Ranks killed, stopped or aborted in random phases.
CampaignResult RunKills(const CampaignOptions& options);

// Whole jobs in virtual time, most with one thing that goes wrong; trial i is that of seed + i.
CampaignResult RunSeeds(const CampaignOptions& options);

// Trainings in virtual time of which every plan is tried, against spec `auto`; trial i is that of
// seed + i. A failure is one that ends more than 5 % behind the best plan, is more than 2 % slower
// than none after the warm-up, or misses a baseline that is best; each is printed as a line.
CampaignResult RunOracles(const CampaignOptions& options);

// Trainings in virtual time with spec `auto` and with none; trial i is that of seed + i. A failure
// is one in which `auto` has less than 0.98 of the speed of none over some 500 steps.
CampaignResult RunSafety(const CampaignOptions& options);

// Random jobs in virtual time, over a transport that delays and over one that does not: the same
// bytes. Trial i is number i of the seed.
CampaignResult RunTimings(const CampaignOptions& options);

// Random settings, tensors and operations of processes, half of them on a transport that delays.
// Sums of integers are right; what is compressed is the same on all ranks, and without delays too.
CampaignResult RunConfigurations(const CampaignOptions& options);

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_SOAK_CAMPAIGN_H_
