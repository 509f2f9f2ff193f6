// `gradwire codecs [--ranks N] [--json]`: every codec, what it costs and what it is safe with.
#ifndef GRADWIRE_CLI_CODECS_CODECS_COMMAND_H_
#define GRADWIRE_CLI_CODECS_CODECS_COMMAND_H_

#include <span>
#include <string>

namespace gradwire {

int CodecsCommand(std::span<const std::string> args);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_CODECS_CODECS_COMMAND_H_
