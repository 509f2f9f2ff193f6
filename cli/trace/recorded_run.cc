#include "cli/trace/recorded_run.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "cli/text_input.h"

namespace gradwire {
namespace {

using Json = nlohmann::json;

// The readers throw what nlohmann throws; ReadRecordedRun turns it into a Status.

SpanKind KindOf(const std::string& name) {
  for (const SpanKind kind : {SpanKind::kStep, SpanKind::kBlocked, SpanKind::kEncode,
                              SpanKind::kDecode, SpanKind::kWire}) {
    if (NameOf(kind) == name) return kind;
  }
  throw std::out_of_range("no span is called " + name);
}

Span SpanOf(const Json& json) {
  const Span span = {.kind = KindOf(json.at("span")),
                     .begin_ns = json.at("begin_ns"),
                     .end_ns = json.at("end_ns"),
                     .number = json.at("number")};
  if (span.end_ns < span.begin_ns) throw std::out_of_range("a span ends before it begins");
  return span;
}

struct RankTimeline {
  std::string job;
  int rank = 0, ranks = 0;
  std::vector<Span> spans;
  int64_t left_out = 0;  // behind them
};

void ReadLine(const std::string& line, bool is_first, RankTimeline* timeline) {
  const Json json = Json::parse(line);
  if (is_first) {
    timeline->job = json.at("job");
    timeline->rank = json.at("rank");
    timeline->ranks = json.at("ranks");
  } else if (timeline->left_out > 0) {
    throw std::out_of_range("it stands behind the end");
  } else if (json.contains("left_out")) {
    timeline->left_out = json.at("left_out");
  } else {
    timeline->spans.push_back(SpanOf(json));
  }
}

StatusOr<RankTimeline> ReadTimeline(const std::string& path) {
  const StatusOr<std::string> text = ReadTextFrom(path);
  if (!text.ok()) return text.status();
  RankTimeline timeline;
  std::istringstream lines(*text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    try {
      ReadLine(line, ++number == 1, &timeline);
    } catch (const std::exception& error) {
      return Status(gwInvalidArgument, fmt::format("{}, line {}: {}", path, number, error.what()));
    }
  }
  if (number == 0) return Status(gwInvalidArgument, fmt::format("'{}' is empty", path));
  return timeline;
}

// FILE.RANK of all ranks of a job, as many as rank 0's file tells.
StatusOr<RecordedRun> ReadTimelines(const std::string& file) {
  RecordedRun recorded;
  std::string job;
  int ranks = 1;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string path = fmt::format("{}.{}", file, rank);
    StatusOr<RankTimeline> timeline = ReadTimeline(path);
    if (!timeline.ok()) return timeline.status();
    if (rank == 0) job = timeline->job, ranks = timeline->ranks;
    if (timeline->job != job || timeline->rank != rank || timeline->ranks != ranks) {
      return Status(gwInvalidArgument,
                    fmt::format("'{}' is rank {} of {} in job {}, no part of job {} of {} ranks",
                                path, timeline->rank, timeline->ranks, timeline->job, job, ranks),
                    "Keep the files of different jobs in different folders");
    }
    recorded.ranks.push_back(std::move(timeline->spans));
    recorded.left_out.push_back(timeline->left_out);
    recorded.files.push_back(path);
  }
  return recorded;
}

std::vector<PlanChange> PlansOf(const Json& run) {
  std::vector<PlanChange> plans;
  for (const Json& row : run.at("results")) {
    for (const Json& plan : row.at("plan_changes")) plans.push_back(PlanChangeOf(plan));
  }
  return plans;
}

StatusOr<RecordedRun> ReadTrainedRun(const Json& run, const std::filesystem::path& folder) {
  const std::string timeline = run.at("timeline");
  std::vector<PlanChange> plans = PlansOf(run);
  StatusOr<RecordedRun> recorded = ReadTimelines((folder / timeline).string());
  if (recorded.ok()) recorded->plans = std::move(plans);
  return recorded;
}

constexpr const char* kValidForm =
    "Give the file of gradwire train --timeline --json FILE, or that of "
    "GRADWIRE_RECORD_TIMELINE=FILE, without the rank behind it";

}  // namespace

StatusOr<RecordedRun> ReadRecordedRun(const std::string& path) {
  if (!std::filesystem::exists(path) && std::filesystem::exists(path + ".0"))
    return ReadTimelines(path);
  const StatusOr<std::string> text = ReadTextFrom(path);
  if (!text.ok()) return text.status();
  try {
    const Json run = Json::parse(*text);
    if (!run.is_object() || !run.contains("timeline")) {
      return Status(gwInvalidArgument, fmt::format("'{}' tells of no timeline", path), kValidForm);
    }
    StatusOr<RecordedRun> recorded = ReadTrainedRun(run, std::filesystem::path(path).parent_path());
    if (recorded.ok()) recorded->files.push_back(path);
    return recorded;
  } catch (const std::exception& error) {
    return Status(gwInvalidArgument, fmt::format("{}: {}", path, error.what()), kValidForm);
  }
}

}  // namespace gradwire
