// `gradwire diagnose DIR`: what went wrong, from the flight recorder's files.
#ifndef GRADWIRE_CLI_DIAGNOSE_DIAGNOSE_COMMAND_H_
#define GRADWIRE_CLI_DIAGNOSE_DIAGNOSE_COMMAND_H_

#include <span>
#include <string>

namespace gradwire {

// kExitOk: a diagnosis was printed, whatever it says. kExitFailed: no readable file.
int DiagnoseCommand(std::span<const std::string> args);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_DIAGNOSE_DIAGNOSE_COMMAND_H_
