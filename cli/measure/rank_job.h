// Runs a measurement on all ranks of a job: threads of this process, or this process alone as one
// of the ranks that a launcher has started.
#ifndef GRADWIRE_CLI_MEASURE_RANK_JOB_H_
#define GRADWIRE_CLI_MEASURE_RANK_JOB_H_

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/measure/run_facts.h"
#include "gradwire/gradwire.h"

namespace gradwire {

struct RankJob {
  std::string subcommand;            // begins what is said about errors
  int thread_ranks = 0;              // ranks as threads; 0: not asked for
  int default_thread_ranks = 2;      // likewise, where nobody asked and there is no launcher
  int communicators = 1;             // among the same ranks, independent of each other
  std::string settings;              // of each communicator, as gwConfig_t takes them
  std::string further_settings;      // likewise, of those after the first: added, so they win
  std::vector<std::string> outputs;  // where results go, "" among them: tried before the work
  // What each rank does; where ranks are threads, at the same time on all of them. `facts` on rank
  // 0 only, null on the others. After an error that other ranks do not find by themselves it has
  // aborted the communicators.
  std::function<Status(std::span<const gwComm_t> comms, const RunFacts* facts)> work;
  // In rank 0's process after all went well and no communicator is left. Returns the exit code.
  std::function<int(const RunFacts& facts)> finish;
};

// Returns the exit code; errors are already printed.
int RunRanks(const RankJob& job);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_MEASURE_RANK_JOB_H_
