#include "cli/schedule/schedule_command.h"

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "base/json_value.h"
#include "cli/arguments.h"
#include "cli/measure/fixed_codec.h"
#include "cli/measure/near_square.h"
#include "cli/operation_names.h"
#include "cli/schedule/schedule_view.h"
#include "cli/subcommand.h"
#include "cli/text_output.h"
#include "collectives/schedule_json.h"
#include "collectives/schemes/slice_size.h"
#include "compress/contribution.h"
#include "runtime/state/tensor_state.h"

namespace gradwire {
namespace {

constexpr char kAuto[] = "auto";
constexpr int kMaxRanks = 4096;
// Of all ranks, sent or listed: half a GiB while they are made.
constexpr double kMaxMessages = 1 << 22;

constexpr char kDescription[] =
    "Prints the steps of an algorithm, and with --elems the messages it would send.\n\n"
    "example: gradwire schedule ring --ranks 4 --rank 0\n"
    "         gradwire schedule two_shot --ranks 4 --elems 1M -x 'qsgd(bits=4)' --json";

struct Options {
  std::string algorithm = kAuto;
  std::string collective = "all-reduce";
  int ranks = 0, rank = -1, root = 0;
  int64_t elems = -1, slice_elems = 0;
  bool several_hosts = false;
  std::string dtype = "float", spec = "none", json_path;
};

// An exit code where the command ends here.
std::optional<int> Parse(std::span<const std::string> args, Options* options) {
  CommandLine line(kDescription, "gradwire schedule");
  line.Add("algorithm", &options->algorithm,
           "name (see `gradwire info`), or auto, the default, which\nchooses by --elems; without "
           "it as for few");
  line.Add("--collective", &options->collective, "default all-reduce");
  line.Add("-n,--ranks", &options->ranks, "number of ranks").Required().InRange(1, kMaxRanks);
  line.Add("--rank", &options->rank, "show this rank's steps only; default: all")
      .InRange(0, kMaxRanks - 1);
  line.Add("-r,--root", &options->root, "root of broadcast and reduce; default 0")
      .InRange(0, kMaxRanks - 1);
  line.Add("--elems", &options->elems, "list the messages for this many elements").Size();
  line.Add("-d,--dtype", &options->dtype, "as of perf; default float");
  line.Add("-x,--spec", &options->spec, "codec, as qsgd(bits=4); default none");
  line.Add("--slice", &options->slice_elems, "elements of a slice; default: chosen")
      .Size()
      .InRange(256, 1 << 28);
  line.AddFlag("--several-hosts", &options->several_hosts,
               "choose as for ranks that do not share a host");
  line.AddJson("--json", &options->json_path);
  return line.Parse(args);
}

Status CheckRanks(const Options& options) {
  if (options.root < options.ranks && options.rank < options.ranks) return Status::Ok();
  return Status(gwInvalidArgument, fmt::format("rank {} and root {} must be below {}", options.rank,
                                               options.root, options.ranks));
}

// A tensor's messages are those of its codec only where the codec takes it, and can be told only
// where no data is needed for that.
Status CheckTensor(const RunShape& shape, int ranks) {
  TensorState tensor;
  tensor.shape.assign(shape.matrix.begin(), shape.matrix.end());
  tensor.elems = shape.elems;
  tensor.dtype = shape.dtype;
  if (const std::string why = ExemptionFrom(*shape.codec, tensor); !why.empty()) {
    return Status(gwInvalidArgument,
                  fmt::format("such a tensor is exempt from {}: {}", shape.codec->spec, why),
                  "Leave -x out: it travels as it is");
  }
  GW_RETURN_IF_ERROR(shape.codec->Check(MetaOf(shape), ranks));
  const CarrierMethod* const method = shape.codec->carrier.get();
  if (method == nullptr || !method->SizesDependOnData()) return Status::Ok();
  return Status(gwInvalidArgument,
                fmt::format("how much {} sends depends on the data: its first round agrees on "
                            "which elements the second one sums",
                            shape.codec->spec),
                "See what was sent: `gradwire perf --record FILE`");
}

StatusOr<RunShape> MakeShape(const Options& options) {
  const StatusOr<DType> dtype = ParseDType(options.dtype);
  if (!dtype.ok()) return dtype.status();
  StatusOr<Codec> codec = MakeFixedCodec(options.spec);
  if (!codec.ok()) return codec.status();
  const SliceSize slice = options.slice_elems > 0 ? SliceSize{.elems = options.slice_elems}
                                                  : DefaultSliceSize(!options.several_hosts);
  RunShape shape = {.elems = options.elems, .dtype = *dtype};
  shape.slice_elems = slice.ElemsFor(WireBytesPerElem(codec->payload.get(), *dtype));
  if (codec->spec == "none") return shape;
  // As the runtime has it: arrays of codes and of few values take long slices as they are.
  if (codec->payload == nullptr) shape.slice_elems = slice.elems;
  shape.codec = std::move(*codec);
  if (options.elems < 0) return shape;
  shape.matrix = NearSquare(options.elems);
  GW_RETURN_IF_ERROR(CheckTensor(shape, options.ranks));
  return shape;
}

// What carries the rounds of a codec that travels as plain arrays is for it to say.
StatusOr<Collective> CollectiveFor(const Options& options, const RunShape& shape) {
  const StatusOr<Collective> collective = ParseCollective(options.collective);
  if (!collective.ok() || !shape.codec || shape.encoded()) return collective;
  if (*collective != Collective::kAllReduce) {
    return Status(gwInvalidArgument, fmt::format("{} is for all-reduce, not for {}",
                                                 shape.codec->spec, Name(*collective)));
  }
  const bool gathers = shape.codec->carrier->Gathers() && options.ranks > 1;
  return gathers ? Collective::kAllGather : Collective::kAllReduce;
}

int64_t BytesToChooseBy(const Options& options, const RunShape& shape) {
  if (options.elems < 0) return 0;
  if (!shape.codec || shape.encoded()) return options.elems * SizeOf(shape.dtype);
  // Of the first operation, as its messages are.
  const std::vector<std::byte> state(
      shape.codec->carrier->ReplicatedBytes(MetaOf(shape), options.ranks));
  return LongestRoundBytes(*shape.codec, MetaOf(shape), options.ranks,
                           {state.data(), std::ssize(state)});
}

StatusOr<const AlgorithmRow*> Choose(const Options& options, Collective collective,
                                     const RunShape& shape) {
  if (options.algorithm == kAuto) {
    return ChooseAlgorithm({.collective = collective,
                            .world_size = options.ranks,
                            .bytes = BytesToChooseBy(options, shape),
                            .one_host = !options.several_hosts,
                            .encoded = shape.encoded()});
  }
  StatusOr<const AlgorithmRow*> row = FindAlgorithm(collective, options.algorithm, shape.encoded());
  // Without a codec a name that only encoded algorithms have is no mistake: the steps are the
  // same.
  if (row.ok() || shape.encoded()) return row;
  StatusOr<const AlgorithmRow*> other = FindAlgorithm(collective, options.algorithm, true);
  return other.ok() && options.elems < 0 ? other : row;
}

bool ShowsOneRank(const Options& options) { return options.rank >= 0 && options.elems < 0; }

Status CheckMessages(const Options& options, const AlgorithmRow& row, const RunShape& shape) {
  const double messages = EstimateMessages(row, options.ranks, shape);
  if (ShowsOneRank(options) || messages <= kMaxMessages) return Status::Ok();
  return Status(gwInvalidArgument,
                fmt::format("these are about {:.2g} messages, and {:.2g} are shown at most",
                            messages, kMaxMessages),
                "Ask for fewer elements or ranks or longer slices, or, without --elems, for the "
                "steps of one --rank");
}

std::string TensorText(const RunShape& shape) {
  if (!shape.codec) return "";
  const auto [rows, cols] = shape.matrix;
  return fmt::format(", {} by {}, with {}{}", rows, cols, shape.codec->spec,
                     shape.encoded() ? "" : ", in the tensor's first operation");
}

std::string Text(const Options& options, const AlgorithmRow& row,
                 std::span<const Schedule> schedules, const RunShape& shape) {
  const WireTotals totals = row.totals(options.ranks);
  std::string text = fmt::format(
      "# {} {} {} of {} ranks: {}\n# a slice sends {} messages with {} shards in total, each 1/{} "
      "of it\n",
      row.encoded ? "encoded" : "exact", Name(row.collective), row.name, options.ranks, row.doc,
      totals.messages, totals.shards, schedules[0].logical_shards);
  if (options.algorithm == kAuto && options.elems < 0)
    text += "# chosen as for few elements: --elems N has it chosen for N\n";
  for (const Schedule& schedule : schedules) {
    if (options.rank >= 0 && schedule.rank != options.rank) continue;
    text += fmt::format("# rank {}\n{}", schedule.rank, ScheduleTable(schedule));
  }
  if (options.elems < 0) return text;
  return text +
         fmt::format("# messages of {} elements of {}{}\n", shape.elems, options.dtype,
                     TensorText(shape)) +
         MessageTable(ListMessages(schedules, shape));
}

std::string Json(const Options& options, const AlgorithmRow& row,
                 std::span<const Schedule> schedules, const RunShape& shape) {
  const WireTotals totals = row.totals(options.ranks);
  JsonValue json = {{"schema_version", 1},
                    {"algorithm", row.name},
                    {"collective", std::string(Name(row.collective))},
                    {"encoded", row.encoded},
                    {"world_size", options.ranks},
                    {"root", options.root},
                    {"totals", {{"messages", totals.messages}, {"shards", totals.shards}}}};
  json["schedules"] = JsonValue::array();
  for (const Schedule& schedule : schedules) {
    if (options.rank >= 0 && schedule.rank != options.rank) continue;
    json["schedules"].push_back(ScheduleToJson(schedule));
  }
  if (options.elems >= 0) {
    json["elems"] = shape.elems;
    json["dtype"] = options.dtype;
    json["spec"] = shape.codec ? shape.codec->spec : "none";
    if (shape.codec) json["shape"] = {shape.matrix[0], shape.matrix[1]};
    json["slice_elems"] = shape.slice_elems;
    json["messages"] = MessagesJson(ListMessages(schedules, shape));
  }
  return json.dump(1) + "\n";
}

Status Show(const Options& options) {
  GW_RETURN_IF_ERROR(CheckRanks(options));
  const StatusOr<RunShape> shape = MakeShape(options);
  if (!shape.ok()) return shape.status();
  const StatusOr<Collective> collective = CollectiveFor(options, *shape);
  if (!collective.ok()) return collective.status();
  const StatusOr<const AlgorithmRow*> row = Choose(options, *collective, *shape);
  if (!row.ok()) return row.status();
  GW_RETURN_IF_ERROR(CheckMessages(options, **row, *shape));
  const std::vector<Schedule> schedules =
      MakeSchedules(**row, options.ranks, options.root, ShowsOneRank(options) ? options.rank : -1);
  if (options.json_path.empty()) return WriteTextTo("-", Text(options, **row, schedules, *shape));
  return WriteTextTo(options.json_path, Json(options, **row, schedules, *shape));
}

}  // namespace

int ScheduleCommand(std::span<const std::string> args) {
  Options options;
  if (const auto code = Parse(args, &options)) return *code;
  const Status status = Show(options);
  return status.ok() ? kExitOk : ReportError("schedule", status);
}

}  // namespace gradwire
