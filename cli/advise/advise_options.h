// The command line of `gradwire advise`.
#ifndef GRADWIRE_CLI_ADVISE_ADVISE_OPTIONS_H_
#define GRADWIRE_CLI_ADVISE_ADVISE_OPTIONS_H_

#include <optional>
#include <span>
#include <string>

#include "cli/models/model_shapes.h"
#include "runtime/spec/auto_spec.h"

namespace gradwire {

struct AdviseOptions {
  ModelShapes model;  // already scaled
  double scale = 1;   // by how much
  double compute_ms = 0;
  AutoSpec automatic;                  // the codecs to choose from, with their bounds
  std::string settings;                // of the communicator, as gwConfig_t takes them
  std::string json_path, record_path;  // of rank 0's record of messages; empty: none
  std::string command_line;            // as given
};

// An exit code, with help or the error already printed, where the command ends here.
std::optional<int> ParseAdviseOptions(std::span<const std::string> args, AdviseOptions* options);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_ADVISE_ADVISE_OPTIONS_H_
