// `gradwire info [-c] [--json]`: versions, what is compiled in, what works here, all settings.
#ifndef GRADWIRE_CLI_INFO_INFO_COMMAND_H_
#define GRADWIRE_CLI_INFO_INFO_COMMAND_H_

#include <span>
#include <string>

namespace gradwire {

int InfoCommand(std::span<const std::string> args);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_INFO_INFO_COMMAND_H_
