#include "cli/models/model_options.h"

#include <fmt/format.h>

#include <utility>

#include "base/json_value.h"
#include "cli/models/known_models.h"
#include "cli/models/shapes_file.h"

namespace gradwire {

void AddModelOptions(CommandLine* line, ModelOptions* options) {
  std::string models;
  for (const KnownModel& model : KnownModels()) {
    models += fmt::format("{}{}", models.empty() ? "" : ", ", model.name);
  }
  CommandLine choice = line->AddChoice("model");
  choice.Add("-m,--model", &options->name, models);
  choice.Add("--shapes", &options->shapes_path,
             "JSON file: {\"name\": ..., \"tensors\": [{\"name\": ..., \"shape\": [...]}, "
             "...]}, in forward order");
  line->Add("--scale", &options->scale,
            "keep this fraction of the rows of every matrix, 0 < F <= 1; default 1");
}

StatusOr<ModelShapes> FindShapes(const ModelOptions& options) {
  // Not by CLI11's ranges, which let NaN through.
  if (!(options.scale > 0 && options.scale <= 1)) {
    return Status(gwInvalidArgument, fmt::format("--scale {:g} is not in (0, 1]", options.scale));
  }
  StatusOr<ModelShapes> model =
      options.name.empty() ? ReadShapesFile(options.shapes_path) : FindModel(options.name);
  if (!model.ok()) return model.status();
  return Scaled(std::move(*model), options.scale);
}

std::string ModelLine(const ModelShapes& model, double scale) {
  return fmt::format("# model {}{}: {} tensors, {} elements, {:.3f} MB of float32", model.name,
                     scale < 1 ? fmt::format(" scaled by {:g}", scale) : "", model.tensors.size(),
                     model.elems(), 4e-6 * static_cast<double>(model.elems()));
}

JsonValue ModelJson(const ModelShapes& model, double scale) {
  return {{"name", model.name},
          {"scale", scale},
          {"tensors", model.tensors.size()},
          {"elems", model.elems()}};
}

}  // namespace gradwire
