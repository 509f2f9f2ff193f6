// Models whose shapes gradwire knows, each generated from its architecture.
#ifndef GRADWIRE_CLI_MODELS_KNOWN_MODELS_H_
#define GRADWIRE_CLI_MODELS_KNOWN_MODELS_H_

#include <span>
#include <string_view>

#include "base/status.h"
#include "cli/models/model_shapes.h"

namespace gradwire {

struct KnownModel {
  std::string_view name;
  std::string_view doc;  // one line: what it is, and whose numbers
  std::vector<TensorShape> (*tensors)();
};

std::span<const KnownModel> KnownModels();

// gwInvalidArgument with the nearest name otherwise.
StatusOr<ModelShapes> FindModel(std::string_view name);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_MODELS_KNOWN_MODELS_H_
