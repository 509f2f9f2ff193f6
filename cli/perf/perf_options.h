// The command line of `gradwire perf`.
#ifndef GRADWIRE_CLI_PERF_PERF_OPTIONS_H_
#define GRADWIRE_CLI_PERF_PERF_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/perf/perf_case.h"

namespace gradwire {

// How the ranks' times become one: nccl-tests' -a.
enum class Combine : uint8_t { kRank0, kMean, kMin, kMax };

struct PerfOptions {
  std::vector<PerfCase> cases;  // in the order in which they are measured
  int iterations = 20, warm_ups = 5;
  int operations = 1;           // of an iteration, issued together
  bool processor_time = false;  // of the calling thread, in place of the time that passes
  int checks = 1;               // runs whose results are checked
  Combine combine = Combine::kMax;
  int thread_ranks = 0;     // ranks as threads of this process; 0: not asked for
  std::string record_path;  // of the messages that rank 0 sends; empty: not recorded
  std::string settings;     // of the communicator, as gwConfig_t takes them
  std::string json_path, csv_path;
  std::string command_line;  // as given
};

// An exit code, with help or the error already printed, where the command ends here.
std::optional<int> ParsePerfOptions(std::span<const std::string> args, PerfOptions* options);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_PERF_PERF_OPTIONS_H_
