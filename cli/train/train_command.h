// `gradwire train`: training steps with the shapes of a model.
#ifndef GRADWIRE_CLI_TRAIN_TRAIN_COMMAND_H_
#define GRADWIRE_CLI_TRAIN_TRAIN_COMMAND_H_

#include <span>
#include <string>

namespace gradwire {

// Exit code 1 for an error of the library.
int TrainCommand(std::span<const std::string> args);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TRAIN_TRAIN_COMMAND_H_
