// The options that choose a model, and how a chosen one is shown.
#ifndef GRADWIRE_CLI_MODELS_MODEL_OPTIONS_H_
#define GRADWIRE_CLI_MODELS_MODEL_OPTIONS_H_

#include <string>

#include "base/json_value.h"
#include "base/status.h"
#include "cli/arguments.h"
#include "cli/models/model_shapes.h"

namespace gradwire {

// As on the command line.
struct ModelOptions {
  std::string name, shapes_path;  // one of them is given
  double scale = 1;
};

// --model, --shapes and --scale; `options` outlive the parsing.
void AddModelOptions(CommandLine* line, ModelOptions* options);

// The model they name, scaled. gwInvalidArgument that says what is wrong with them.
StatusOr<ModelShapes> FindShapes(const ModelOptions& options);

// "# model resnet50 scaled by 0.02: 161 tensors, ..." of an already scaled model.
std::string ModelLine(const ModelShapes& model, double scale);
JsonValue ModelJson(const ModelShapes& model, double scale);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_MODELS_MODEL_OPTIONS_H_
