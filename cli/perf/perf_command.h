// `gradwire perf`: measures collectives.
#ifndef GRADWIRE_CLI_PERF_PERF_COMMAND_H_
#define GRADWIRE_CLI_PERF_PERF_COMMAND_H_

#include <span>
#include <string>

namespace gradwire {

// Exit code 1 for wrong results or an error of the library.
int PerfCommand(std::span<const std::string> args);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_PERF_PERF_COMMAND_H_
