#include "cli/perf/perf_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>

#include "cli/arguments.h"
#include "cli/measure/fixed_codec.h"
#include "cli/measure/library_options.h"
#include "cli/operation_names.h"
#include "cli/perf/size_list.h"
#include "cli/subcommand.h"
#include "cli/text_output.h"
#include "collectives/schedule.h"

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

constexpr int kMostThreadRanks = 256;
constexpr char kAuto[] = "auto";  // of --algorithm: as without

// As on the command line.
struct Texts {
  SizeRange sizes = {.max_bytes = -1};  // -1: the smallest
  std::string dtype = "float", op = "sum", collective = "all-reduce";
  int root = 0, average = 3, processor_time = 0, timeout_s = 0;
  int threads = 0, ranks_per_thread = 0;
  int cuda_graphs = 0, local_register = 0, null_stream = 0, blocking = 0, parallel_init = 0;
  std::vector<std::string> specs;
  LibraryOptions library;
};

void AddSizeOptions(CommandLine* line, Texts* texts) {
  line->Add("-b,--minbytes", &texts->sizes.min_bytes, "smallest size, as 64K; default 32M").Size();
  line->Add("-e,--maxbytes", &texts->sizes.max_bytes, "largest size; default: the smallest").Size();
  line->Add("-f,--stepfactor", &texts->sizes.factor, "factor between sizes; default 2");
  line->Add("-i,--stepbytes", &texts->sizes.step_bytes, "difference between sizes instead").Size();
}

void AddCaseOptions(CommandLine* line, Texts* texts) {
  line->Add("--collective", &texts->collective, "default all-reduce");
  line->Add(
      "-d,--datatype", &texts->dtype,
      "float, half, bfloat16, int32, ... (also fp32, fp16, bf16,\nfp64) or all; default float");
  line->Add("-o,--op", &texts->op, "sum, prod, max, min, avg or all; default sum");
  line->Add("-r,--root", &texts->root,
            "root of broadcast and reduce; -1: each rank in turn; default 0")
      .InRange(kEachRoot, INT_MAX);
  line->Add("-x,--compress", &texts->specs,
            "codec, as qsgd(bits=4); repeat to compare; default none")
      .OneValueEach();
}

void AddRunOptions(CommandLine* line, Texts* texts, PerfOptions* options) {
  line->Add("-n,--iters", &options->iterations, "timed iterations; default 20")
      .InRange(1, 1'000'000);
  line->Add("-w,--warmup_iters", &options->warm_ups, "iterations before; default 5")
      .InRange(0, 1'000'000);
  line->Add("-m,--agg_iters", &options->operations,
            "operations of an iteration, issued together; default 1")
      .InRange(1, 1024);
  line->Add("-c,--check", &options->checks, "runs whose results are checked, or 0; default 1")
      .InRange(0, 1'000'000);
  line->Add("-a,--average", &texts->average,
            "of the ranks' times: 0 rank 0, 1 mean, 2 min, 3 max; default 3")
      .InRange(0, 3);
  line->Add("-C,--report_cputime", &texts->processor_time,
            "1: time is the calling thread's processor time; default 0")
      .InRange(0, 1);
  line->Add("-T,--timeout", &texts->timeout_s,
            "seconds without progress until an operation fails; default: op_timeout_ms")
      .InRange(0, 1'000'000);
  line->Add("-t,--ranks,--nthreads", &texts->threads,
            "ranks as threads of this process; default 2 without a launcher")
      .InRange(1, kMostThreadRanks);
}

// So that a command line of nccl-tests does what it can here, and says what it cannot.
void AddOptionsOfGpus(CommandLine* line, Texts* texts) {
  line->Add("-g,--ngpus", &texts->ranks_per_thread, "as so many times the -t")
      .InRange(1, kMostThreadRanks);
  line->Add("-z,--blocking", &texts->blocking, "0 or 1: calls are complete on return in any case")
      .InRange(0, 1);
  line->Add("-y,--stream_null", &texts->null_stream, "0 or 1: arrays in host memory have no stream")
      .InRange(0, 1);
  line->Add("-p,--parallel_init", &texts->parallel_init, "0 or 1: ranks start in parallel always")
      .InRange(0, 1);
  line->Add("-G,--cudagraph", &texts->cuda_graphs, "0: arrays are in host memory");
  line->Add("-R,--local_register", &texts->local_register, "0: arrays are in host memory");
}

void AddFileOptions(CommandLine* line, PerfOptions* options) {
  line->AddJson("-J,--json,--output_file", &options->json_path);
  line->Add("--csv", &options->csv_path, "write CSV to this file; - is stdout");
}

StatusOr<std::vector<ReduceOp>> ParseOps(const std::string& text, Collective collective) {
  if (!Reduces(collective)) return std::vector{ReduceOp::kSum};
  return ParseReduceOps(text);
}

StatusOr<std::vector<int64_t>> SizesOf(SizeRange range) {
  if (range.max_bytes < 0) range.max_bytes = range.min_bytes;
  return ListSizes(range);
}

// The canonical spec, if it can be measured on this.
StatusOr<std::string> MeasurableSpec(const std::string& text, const PerfCase& c) {
  const StatusOr<Codec> codec = MakeFixedCodec(text);
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
  const StatusOr<std::vector<int64_t>> sizes = SizesOf(texts.sizes);
  if (!sizes.ok()) return sizes.status();
  const std::vector<std::string> specs =
      texts.specs.empty() ? std::vector<std::string>{"none"} : texts.specs;
  for (const std::string& spec : specs) {
    for (const DType dtype : *types) {
      for (const ReduceOp op : *ops) {
        PerfCase c = {.collective = *collective, .dtype = dtype, .op = op, .root = texts.root};
        StatusOr<std::string> canonical = MeasurableSpec(spec, c);
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

// Exact sums do, and those of codecs that any all-reduce can carry.
bool TakesAlgorithm(const PerfCase& c) {
  if (c.collective != Collective::kAllReduce) return false;
  const StatusOr<Codec> codec = MakeFixedCodec(c.spec);
  if (!codec.ok()) return false;
  return codec->spec == "none" || (codec->carrier != nullptr && !codec->carrier->Gathers());
}

Status CheckAlgorithm(const Texts& texts, std::span<const PerfCase> cases) {
  const std::string& name = texts.library.algorithm;
  if (name.empty() || name == kAuto) return Status();
  const auto known = FindAlgorithm(Collective::kAllReduce, name);
  if (!known.ok()) return known.status();
  if (std::any_of(cases.begin(), cases.end(), TakesAlgorithm)) return Status();
  const PerfCase& first = cases.front();
  const bool is_all_reduce = first.collective == Collective::kAllReduce;
  return Status(
      gwInvalidArgument,
      fmt::format("--algorithm {} changes nothing here: {}", name,
                  is_all_reduce ? first.spec + " takes its own way"
                                : fmt::format("{} takes its own", Name(first.collective))),
      "Leave it out; all-reduces with none take it, and with codecs that `gradwire codecs` "
      "lists as linear");
}

// As many as nccl-tests has: for each of the threads all of its GPUs.
Status CountThreadRanks(const Texts& texts, PerfOptions* options) {
  if (texts.threads == 0 && texts.ranks_per_thread == 0) return Status();
  options->thread_ranks = std::max(texts.threads, 1) * std::max(texts.ranks_per_thread, 1);
  if (options->thread_ranks <= kMostThreadRanks) return Status();
  return Status(gwInvalidArgument,
                fmt::format("-t {} times -g {} are more than {} ranks", texts.threads,
                            texts.ranks_per_thread, kMostThreadRanks),
                "Start further ranks as processes: gradwire run -n N -- gradwire perf ...");
}

Status CheckOptionsOfGpus(const Texts& texts) {
  if (texts.cuda_graphs == 0 && texts.local_register == 0) return Status();
  return Status(gwInvalidArgument,
                fmt::format("{} is for arrays in GPU memory, and these are in host memory",
                            texts.cuda_graphs != 0 ? "--cudagraph" : "--local_register"),
                "Leave the option out");
}

}  // namespace

std::optional<int> ParsePerfOptions(std::span<const std::string> args, PerfOptions* options) {
  Texts texts;
  CommandLine line(kDescription, "gradwire perf");
  AddSizeOptions(&line, &texts);
  AddCaseOptions(&line, &texts);
  AddRunOptions(&line, &texts, options);
  AddOptionsOfGpus(&line, &texts);
  AddLibraryOptions(&line, &texts.library);
  AddFileOptions(&line, options);
  if (const auto code = line.Parse(args)) return code;
  options->combine = static_cast<Combine>(texts.average);
  options->processor_time = texts.processor_time != 0;
  if (texts.timeout_s > 0) {
    texts.library.settings.push_back(fmt::format("op_timeout_ms={}", 1000LL * texts.timeout_s));
  }
  options->record_path = RecordOfRankZero(texts.library);
  options->settings = SettingsText(texts.library);
  options->command_line = CommandLineText("gradwire perf", args);
  Status status = CountThreadRanks(texts, options);
  if (status.ok()) status = CheckOptionsOfGpus(texts);
  if (status.ok()) status = MakeCases(texts, options);
  if (status.ok()) status = CheckAlgorithm(texts, options->cases);
  if (status.ok()) return std::nullopt;
  return ReportError("perf", status);
}

}  // namespace gradwire
