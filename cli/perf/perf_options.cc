#include "cli/perf/perf_options.h"

#include <fmt/format.h>

#include "cli/arguments.h"
#include "cli/measure/library_options.h"
#include "cli/operation_names.h"
#include "cli/perf/size_text.h"
#include "cli/subcommand.h"
#include "cli/text_output.h"
#include "compress/registry.h"

namespace gradwire {
namespace {

constexpr char kDescription[] =
    "Measures collectives, with the options and columns of nccl-tests and some more. Alone its\n"
    "ranks are threads of one process; under `gradwire run`, mpirun or torchrun each process is\n"
    "one. With -x the collective is an all-reduce of a registered tensor, encoded by that "
    "codec.\n\n"
    "time is the median over the iterations, then the maximum over the ranks (see -a). busbw is\n"
    "what nccl-tests defines; with a codec it is what really crossed each link, and eff_busbw is\n"
    "nccl-tests' value for the uncompressed bytes. #wrong counts elements that are not exact, or\n"
    "with a codec outside its error bound. The exit code is 1 if there are any.\n\n"
    "example: gradwire perf --ranks 4 -b 1K -e 64M -f 4\n"
    "         gradwire run -n 4 --netlab 1gbit -- gradwire perf -b 16M -x none -x bf16 -x "
    "'qsgd(bits=4)'";

// As on the command line.
struct Texts {
  std::string min_bytes = "32M", max_bytes, step_bytes = "0";
  double factor = 2;
  std::string dtype = "float", op = "sum", collective = "all-reduce";
  int root = 0, check = 1, average = 3;
  std::vector<std::string> specs;
  LibraryOptions library;
};

void AddSizeOptions(CommandLine* line, Texts* texts) {
  line->Add("-b,--minbytes", &texts->min_bytes, "smallest size, as 64K; default 32M");
  line->Add("-e,--maxbytes", &texts->max_bytes, "largest size; default: the smallest");
  line->Add("-f,--stepfactor", &texts->factor, "factor between sizes; default 2");
  line->Add("-i,--stepbytes", &texts->step_bytes, "difference between sizes instead");
}

void AddCaseOptions(CommandLine* line, Texts* texts) {
  line->Add("-C,--collective", &texts->collective, "default all-reduce");
  line->Add("-d,--datatype", &texts->dtype, "float, half, bfloat16, int32, ... or all");
  line->Add("-o,--op", &texts->op, "sum, prod, max, min, avg or all");
  line->Add("-r,--root", &texts->root, "root of broadcast and reduce").NotNegative();
  line->Add("-x,--compress", &texts->specs, "codec, as qsgd(bits=4); repeat to compare")
      .OneValueEach();
}

void AddRunOptions(CommandLine* line, Texts* texts, PerfOptions* options) {
  line->Add("-n,--iters", &options->iterations, "timed iterations; default 20")
      .InRange(1, 1'000'000);
  line->Add("-w,--warmup_iters", &options->warm_ups, "iterations before; default 5")
      .InRange(0, 1'000'000);
  line->Add("-c,--check", &texts->check, "check results: 0 or 1; default 1");
  line->Add("-a,--average", &texts->average,
            "of the ranks' times: 0 rank 0, 1 mean, 2 min, 3 max; default 3")
      .InRange(0, 3);
  line->Add("-t,--ranks", &options->thread_ranks,
            "ranks as threads of this process; default 2 without a launcher")
      .InRange(1, 256);
}

void AddFileOptions(CommandLine* line, PerfOptions* options) {
  line->AddJson("-J,--json", &options->json_path);
  line->Add("--csv", &options->csv_path, "write CSV to this file; - is stdout");
}

StatusOr<std::vector<ReduceOp>> ParseOps(const std::string& text, Collective collective) {
  if (!Reduces(collective)) return std::vector{ReduceOp::kSum};
  return ParseReduceOps(text);
}

StatusOr<std::vector<int64_t>> ParseSizes(const Texts& texts) {
  SizeRange range = {.factor = texts.factor};
  const std::string& max_text = texts.max_bytes.empty() ? texts.min_bytes : texts.max_bytes;
  for (const auto& [text, value] :
       {std::pair{&texts.min_bytes, &range.min_bytes}, std::pair{&max_text, &range.max_bytes},
        std::pair{&texts.step_bytes, &range.step_bytes}}) {
    const StatusOr<int64_t> parsed = ParseSize(*text);
    if (!parsed.ok()) return parsed.status();
    *value = *parsed;
  }
  return ListSizes(range);
}

// The canonical spec, if it can be measured on this.
StatusOr<std::string> CheckSpec(const std::string& text, const PerfCase& c) {
  const StatusOr<Codec> codec = MakeCodec(text);
  if (!codec.ok()) return codec.status();
  if (codec->spec == "none") return codec->spec;
  if (c.collective != Collective::kAllReduce) {
    return Status(gwInvalidArgument,
                  fmt::format("{} is exact; only all-reduce takes a codec", Name(c.collective)));
  }
  if (!kFloatTypes.contains(c.dtype) || (c.op != ReduceOp::kSum && c.op != ReduceOp::kAvg)) {
    return Status(gwInvalidArgument,
                  fmt::format("{} takes no {} of {}", codec->spec, Name(c.op), Name(c.dtype)),
                  "Codecs sum or average float, half or bfloat16");
  }
  return codec->spec;
}

Status MakeCases(const Texts& texts, PerfOptions* options) {
  const StatusOr<Collective> collective = ParseCollective(texts.collective);
  if (!collective.ok()) return collective.status();
  const StatusOr<std::vector<DType>> types = ParseDTypes(texts.dtype);
  if (!types.ok()) return types.status();
  const StatusOr<std::vector<ReduceOp>> ops = ParseOps(texts.op, *collective);
  if (!ops.ok()) return ops.status();
  const StatusOr<std::vector<int64_t>> sizes = ParseSizes(texts);
  if (!sizes.ok()) return sizes.status();
  const std::vector<std::string> specs =
      texts.specs.empty() ? std::vector<std::string>{"none"} : texts.specs;
  for (const std::string& spec : specs) {
    for (const DType dtype : *types) {
      for (const ReduceOp op : *ops) {
        PerfCase c = {.collective = *collective, .dtype = dtype, .op = op, .root = texts.root};
        StatusOr<std::string> canonical = CheckSpec(spec, c);
        if (!canonical.ok()) return canonical.status();
        c.spec = *canonical;
        for (const int64_t bytes : *sizes) {
          c.bytes = bytes;
          options->cases.push_back(c);
        }
      }
    }
  }
  return Status::Ok();
}

}  // namespace

std::optional<int> ParsePerfOptions(std::span<const std::string> args, PerfOptions* options) {
  Texts texts;
  CommandLine line(kDescription, "gradwire perf");
  AddSizeOptions(&line, &texts);
  AddCaseOptions(&line, &texts);
  AddRunOptions(&line, &texts, options);
  AddLibraryOptions(&line, &texts.library);
  AddFileOptions(&line, options);
  if (const auto code = line.Parse(args)) return code;
  options->check = texts.check != 0;
  options->combine = static_cast<Combine>(texts.average);
  options->settings = SettingsText(texts.library);
  options->command_line = fmt::format("gradwire perf {}", fmt::join(args, " "));
  const Status made = MakeCases(texts, options);
  if (made.ok()) return std::nullopt;
  return ReportError("perf", made);
}

}  // namespace gradwire
