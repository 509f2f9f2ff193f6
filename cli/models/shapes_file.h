// Shapes of a user's own model, as a JSON file.
#ifndef GRADWIRE_CLI_MODELS_SHAPES_FILE_H_
#define GRADWIRE_CLI_MODELS_SHAPES_FILE_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "cli/models/model_shapes.h"

namespace gradwire {

// {"name": "mine", "tensors": [{"name": "fc.weight", "shape": [256, 784]}, ...]} in forward order.
// gwInvalidArgument: anything else, with what is wrong and the valid form; members beside these
// are ignored. What it returns has passed CheckShapes.
StatusOr<ModelShapes> ParseShapes(std::string_view json);

// Likewise where the file cannot be read; errors name it.
StatusOr<ModelShapes> ReadShapesFile(const std::string& path);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_MODELS_SHAPES_FILE_H_
