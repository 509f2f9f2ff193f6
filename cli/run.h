// `gradwire run -n N [--netlab RATE] -- COMMAND...`: starts N local ranks of a program.
#ifndef GRADWIRE_CLI_RUN_H_
#define GRADWIRE_CLI_RUN_H_

#include <span>
#include <string>

namespace gradwire {

// Exit code: that of the rank that failed first, see cli/launch/launcher.h.
int RunCommand(std::span<const std::string> args);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_RUN_H_
