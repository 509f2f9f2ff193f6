// What commands read: a file whole.
#ifndef GRADWIRE_CLI_TEXT_INPUT_H_
#define GRADWIRE_CLI_TEXT_INPUT_H_

#include <string>

#include "base/status.h"

namespace gradwire {

// gwInvalidArgument: it cannot be read, as a folder cannot.
StatusOr<std::string> ReadTextFrom(const std::string& path);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TEXT_INPUT_H_
