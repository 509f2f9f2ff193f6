#include "cli/advise/advise_options.h"

#include <fmt/format.h>

#include <utility>

#include "cli/arguments.h"
#include "cli/measure/library_options.h"
#include "cli/models/model_options.h"
#include "cli/text_output.h"
#include "cli/train/train_options.h"
#include "compress/spec_args.h"

namespace gradwire {
namespace {

constexpr char kDescription[] =
    "Measures the link between the ranks and their codecs, and says whether compression makes a\n"
    "training step of a model shorter, tensor by tensor. It predicts steps as the spec `auto` "
    "does,\n"
    "by the same model and bounds, and tries the plans that look best, with synthetic "
    "gradients.\n\n"
    "example: gradwire run -n 4 --netlab 1gbit -- gradwire advise --model resnet50 --compute-ms 80";

// As on the command line.
struct Texts {
  ModelOptions model;
  std::string error, lag, allow;
  LibraryOptions library;
};

void AddOptions(CommandLine* line, Texts* texts, AdviseOptions* options) {
  AddModelOptions(line, &texts->model);
  line->Add("--compute-ms", &options->compute_ms,
            "computing in a step, in milliseconds, on a device that leaves the processor "
            "free; default 0: nothing can hide behind it");
  line->Add("--error", &texts->error,
            "bound of the error of a step's sum, of codecs without feedback; default 0.1");
  line->Add("--lag", &texts->lag,
            "bound of what is kept back over the gradient, of codecs with feedback; "
            "default 1");
  line->Add("--allow", &texts->allow,
            "further codecs, as 'topk(0.01),powersgd', which stands for four ranks");
  AddLibraryOptions(line, &texts->library);
  line->AddJson("-J,--json", &options->json_path);
}

std::string AutoSpecText(const Texts& texts) {
  SpecText spec = {.name = "auto"};
  const std::pair<const char*, std::string> args[] = {
      {"error", texts.error}, {"lag", texts.lag}, {"allow", texts.allow}};
  for (const auto& [key, value] : args) {
    if (!value.empty()) spec.args.emplace_back(key, value);
  }
  return FormatSpecText(spec);
}

Status Take(const Texts& texts, AdviseOptions* options) {
  GW_RETURN_IF_ERROR(CheckComputeMs(options->compute_ms));
  StatusOr<AutoSpec> automatic = MakeAutoSpec(AutoSpecText(texts));
  if (!automatic.ok()) return automatic.status();
  options->automatic = std::move(*automatic);
  StatusOr<ModelShapes> model = FindShapes(texts.model);
  if (!model.ok()) return model.status();
  options->model = std::move(*model);
  options->scale = texts.model.scale;
  options->settings = SettingsText(texts.library);
  options->record_path = RecordOfRankZero(texts.library);
  return Status::Ok();
}

}  // namespace

std::optional<int> ParseAdviseOptions(std::span<const std::string> args, AdviseOptions* options) {
  Texts texts;
  CommandLine line(kDescription, "gradwire advise");
  AddOptions(&line, &texts, options);
  if (const auto code = line.Parse(args)) return code;
  options->command_line = CommandLineText("gradwire advise", args);
  const Status taken = Take(texts, options);
  if (taken.ok()) return std::nullopt;
  return ReportError("advise", taken);
}

}  // namespace gradwire
