// `gradwire trace`: a run as a timeline.
#ifndef GRADWIRE_CLI_TRACE_TRACE_COMMAND_H_
#define GRADWIRE_CLI_TRACE_TRACE_COMMAND_H_

#include <span>
#include <string>

namespace gradwire {

// Exit code 1 for files that cannot be read, 2 for those that hold something else.
int TraceCommand(std::span<const std::string> args);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TRACE_TRACE_COMMAND_H_
