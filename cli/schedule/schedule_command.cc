#include "cli/schedule/schedule_command.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "base/json_value.h"
#include "cli/arguments.h"
#include "cli/operation_names.h"
#include "cli/schedule/schedule_view.h"
#include "cli/subcommand.h"
#include "cli/text_output.h"
#include "collectives/schedule_json.h"
#include "collectives/schemes/slice_size.h"

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
  line.Add("-d,--dtype", &options->dtype, "default float");
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

StatusOr<const AlgorithmRow*> Choose(const Options& options, Collective collective, bool encoded) {
  if (options.algorithm != kAuto) {
    StatusOr<const AlgorithmRow*> row = FindAlgorithm(collective, options.algorithm, encoded);
    // Without a codec a name that only encoded algorithms have is no mistake: the steps are the
    // same.
    if (row.ok() || encoded) return row;
    StatusOr<const AlgorithmRow*> other = FindAlgorithm(collective, options.algorithm, true);
    return other.ok() && options.elems < 0 ? other : row;
  }
  const StatusOr<DType> dtype = ParseDType(options.dtype);
  if (!dtype.ok()) return dtype.status();
  const int64_t bytes = std::max<int64_t>(options.elems, 0) * SizeOf(*dtype);
  return ChooseAlgorithm({.collective = collective,
                          .world_size = options.ranks,
                          .bytes = bytes,
                          .one_host = !options.several_hosts,
                          .encoded = encoded});
}

StatusOr<RunShape> MakeShape(const Options& options) {
  const StatusOr<DType> dtype = ParseDType(options.dtype);
  if (!dtype.ok()) return dtype.status();
  StatusOr<Codec> codec = MakeCodec(options.spec);
  if (!codec.ok()) return codec.status();
  const bool is_chosen = options.slice_elems > 0;
  RunShape shape = {
      .elems = options.elems,
      .dtype = *dtype,
      .slice_elems = is_chosen ? options.slice_elems
                               : DefaultSliceSize(!options.several_hosts)
                                     .ElemsFor(WireBytesPerElem(codec->payload.get(), *dtype))};
  if (codec->spec == "none") return shape;
  if (!codec->payload) {
    return Status(gwInvalidArgument,
                  fmt::format("{} has no payload: it travels as plain arrays", codec->spec),
                  "Leave -x out; the messages are those of the exact algorithm");
  }
  shape.codec = std::move(*codec);
  return shape;
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
  return text + fmt::format("# messages of {} elements of {}\n", shape.elems, options.dtype) +
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
    json["slice_elems"] = shape.slice_elems;
    json["messages"] = MessagesJson(ListMessages(schedules, shape));
  }
  return json.dump(1) + "\n";
}

Status Show(const Options& options) {
  GW_RETURN_IF_ERROR(CheckRanks(options));
  const StatusOr<Collective> collective = ParseCollective(options.collective);
  if (!collective.ok()) return collective.status();
  const StatusOr<RunShape> shape = MakeShape(options);
  if (!shape.ok()) return shape.status();
  const StatusOr<const AlgorithmRow*> row = Choose(options, *collective, shape->codec.has_value());
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
