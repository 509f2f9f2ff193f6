#include "cli/train/train_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "cli/arguments.h"
#include "cli/measure/library_options.h"
#include "cli/models/model_options.h"
#include "cli/subcommand.h"
#include "cli/text_output.h"
#include "cli/train/block_plan.h"
#include "cli/train/lanes.h"

namespace gradwire {
namespace {

constexpr char kDescription[] =
    "Runs training steps with the shapes of a model and no weights: a third of the computing is\n"
    "the forward pass, then gradients appear, last tensor first, and each is all-reduced as soon\n"
    "as it is there. Alone its ranks are threads of one process; under `gradwire run`, mpirun or\n"
    "torchrun each process is one.\n\n"
    "With several -x the specs take turns in blocks of steps; the first step of a block is not\n"
    "counted. ratio is the step time relative to the first spec, block by block, with a 95 %\n"
    "bootstrap interval over the blocks.\n\n"
    "example: gradwire run -n 4 --netlab 1gbit -- gradwire train --model resnet50 --compute-ms 80 "
    "-x none -x bf16";
constexpr int kDefaultBlocks = 6, kDefaultBlockSteps = 5;
// The first step of a block is not counted.
constexpr int kMinBlockSteps = 2;
constexpr int kMaxSteps = 1'000'000;
constexpr double kMaxComputeMs = 1e6;

// As on the command line.
struct Texts {
  ModelOptions model;
  std::string compute = "device";
  std::vector<std::string> late;
  bool timeline = false;
  int steps = 0, blocks = 0;  // 0: not given
  int block_steps = kDefaultBlockSteps;
  LibraryOptions library;
};

void AddStepOptions(CommandLine* line, Texts* texts, TrainOptions* options) {
  line->Add("--compute-ms", &options->compute_ms, "computing in a step, in milliseconds")
      .Required();
  line->Add("--compute", &texts->compute,
            "device: the processor is free meanwhile; host: a thread of each rank computes; "
            "default device")
      .OneOf({ComputeName(ComputeKind::kDevice), ComputeName(ComputeKind::kHost)});
  line->Add("-x,--compress", &options->specs,
            "codec, as qsgd(bits=4); repeat it to compare; default none")
      .OneValueEach();
  const Argument blocks = line->Add("--blocks", &texts->blocks, "blocks of each spec; default 6")
                              .InRange(1, kMaxSteps / kMinBlockSteps);
  line->Add("-n,--steps", &texts->steps, "steps of each spec; default: of all its blocks")
      .InRange(kMinBlockSteps, kMaxSteps)
      .Excludes(blocks);
  line->Add("--block", &texts->block_steps, "steps of a block; default 5")
      .InRange(kMinBlockSteps, kMaxSteps);
  line->Add("-w,--warmup_steps", &options->warm_ups,
            "steps of each spec before the first block; default 0")
      .InRange(0, kMaxSteps);
  line->Add("--auto-warmup", &options->auto_warm_ups,
            "further steps of each spec auto before the first block; default 0")
      .InRange(0, kMaxSteps);
  line->Add("--late", &texts->late,
            "RANK:MS[:FIRST[:STEPS]]: this rank computes longer, from step FIRST on; repeat it")
      .OneValueEach();
  line->Add("--seed", &options->seed, "of gradients, order of blocks and interval; default 1");
  line->Add("-t,--ranks", &options->thread_ranks,
            "ranks as threads of this process; default 2 without a launcher")
      .InRange(1, 256);
}

void AddFileOptions(CommandLine* line, Texts* texts, TrainOptions* options) {
  line->AddJson("-J,--json", &options->json_path);
  line->AddFlag("--timeline", &texts->timeline,
                "with --json FILE: keep what `gradwire trace FILE` draws, in FILE.timeline.RANK");
  line->Add("--csv", &options->csv_path, "write CSV to this file; - is stdout");
}

// Files of one communicator.
Status AddTimeline(TrainOptions* options) {
  if (options->json_path.empty() || options->json_path == "-") {
    return Status(gwInvalidArgument, "--timeline needs --json FILE");
  }
  if (LanesOf(options->specs).count > 1) {
    return Status(gwInvalidArgument, "--timeline shows one `auto`, or codecs without it",
                  "Give one -x");
  }
  const std::filesystem::path path = options->json_path + ".timeline";
  options->timeline = path.filename().string();
  if (!options->settings.empty()) options->settings += "; ";
  options->settings += "record_timeline=" + std::filesystem::absolute(path).string();
  return Status::Ok();
}

// A spec that is alone takes no turns: it has blocks only where they are asked for.
std::vector<int> RoundSteps(const Texts& texts, size_t specs) {
  const bool asked = texts.blocks > 0;
  const int64_t wanted = int64_t{asked ? texts.blocks : kDefaultBlocks} * texts.block_steps;
  const auto steps =
      static_cast<int>(texts.steps > 0 ? texts.steps : std::min<int64_t>(wanted, kMaxSteps));
  return SplitSteps(steps, specs > 1 || asked ? texts.block_steps : steps);
}

}  // namespace

std::string ComputeName(ComputeKind kind) {
  switch (kind) {
    case ComputeKind::kDevice: return "device";
    case ComputeKind::kHost: return "host";
  }
  return "";
}

// Not by CLI11's ranges, which let NaN through.
Status CheckComputeMs(double ms) {
  if (ms >= 0 && ms <= kMaxComputeMs) return Status::Ok();
  return Status(gwInvalidArgument,
                fmt::format("--compute-ms {:g} is not between 0 and {:g}", ms, kMaxComputeMs));
}

std::optional<int> ParseTrainOptions(std::span<const std::string> args, TrainOptions* options) {
  Texts texts;
  CommandLine line(kDescription, "gradwire train");
  AddModelOptions(&line, &texts.model);
  AddStepOptions(&line, &texts, options);
  AddLibraryOptions(&line, &texts.library);
  AddFileOptions(&line, &texts, options);
  if (const auto code = line.Parse(args)) return code;
  if (options->specs.empty()) options->specs = {"none"};
  const bool on_host = texts.compute == ComputeName(ComputeKind::kHost);
  options->compute = on_host ? ComputeKind::kHost : ComputeKind::kDevice;
  options->round_steps = RoundSteps(texts, options->specs.size());
  options->settings = SettingsText(texts.library);
  options->record_path = RecordOfRankZero(texts.library);
  options->command_line = CommandLineText("gradwire train", args);
  const Status checked = CheckComputeMs(options->compute_ms);
  if (!checked.ok()) return ReportError("train", checked);
  if (texts.timeline) {
    const Status added = AddTimeline(options);
    if (!added.ok()) return ReportError("train", added);
  }
  for (const std::string& text : texts.late) {
    const StatusOr<LateRank> late = ParseLateRank(text);
    if (!late.ok()) return ReportError("train", late.status());
    options->late.push_back(*late);
  }
  StatusOr<ModelShapes> model = FindShapes(texts.model);
  if (!model.ok()) return ReportError("train", model.status());
  options->model = std::move(*model);
  options->scale = texts.model.scale;
  return std::nullopt;
}

}  // namespace gradwire
