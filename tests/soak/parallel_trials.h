// Trials in virtual time need one thread each and know nothing of each other: as many run at once
// as there are processors.
#ifndef GRADWIRE_TESTS_SOAK_PARALLEL_TRIALS_H_
#define GRADWIRE_TESTS_SOAK_PARALLEL_TRIALS_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cli/measure/progress.h"
#include "runtime/start/usable_cores.h"
#include "tests/soak/campaign.h"

namespace gradwire {

// `ask` is called for trial 0, 1 and so on, on several threads at once, and `judge` with what it
// returned: one at a time, in no certain order. What `judge` returns is printed as a failure's
// complaint, nothing: it is none.
template <typename Ask, typename Judge>
CampaignResult RunParallelTrials(const CampaignOptions& options, const Ask& ask,
                                 const Judge& judge) {
  const Deadline end = EndOf(options);
  Progress progress(ShowsProgress() ? stderr : nullptr, SteadyClock());
  progress.Begin("trial");
  std::mutex mutex;  // of all below
  CampaignResult begun, judged;
  const auto work = [&] {
    std::unique_lock lock(mutex);
    while (GoesOn(options, begun, end)) {
      const auto trial = static_cast<uint64_t>(begun.trials++);
      lock.unlock();
      const auto row = ask(trial);
      lock.lock();
      const std::string complaint = judge(row);
      progress.Count(++judged.trials, options.trials);
      if (complaint.empty()) continue;
      ++judged.failures;
      progress.Clear();
      std::fprintf(stderr, "%s\n", complaint.c_str());
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < UsableCores().size(); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return judged;
}

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_SOAK_PARALLEL_TRIALS_H_
