// `gradwire advise`: whether compression pays on this link, for the shapes of a model.
#ifndef GRADWIRE_CLI_ADVISE_ADVISE_COMMAND_H_
#define GRADWIRE_CLI_ADVISE_ADVISE_COMMAND_H_

#include <span>
#include <string>

namespace gradwire {

// Exit code 1 for an error of the library.
int AdviseCommand(std::span<const std::string> args);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_ADVISE_ADVISE_COMMAND_H_
