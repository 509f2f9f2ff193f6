#include "cli/trace/recorded_run.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

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

StatusOr<std::vector<Span>> ReadSpans(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Status(gwSystemError, fmt::format("cannot read '{}'", path));
  std::vector<Span> spans;
  for (std::string line; std::getline(file, line);) {
    try {
      spans.push_back(SpanOf(Json::parse(line)));
    } catch (const std::exception& error) {
      return Status(gwInvalidArgument,
                    fmt::format("{}, line {}: {}", path, spans.size() + 1, error.what()));
    }
  }
  return spans;
}

std::vector<PlanChange> PlansOf(const Json& run) {
  std::vector<PlanChange> plans;
  for (const Json& row : run.at("results")) {
    for (const Json& plan : row.at("plan_changes")) plans.push_back(PlanChangeOf(plan));
  }
  return plans;
}

StatusOr<RecordedRun> ReadRanks(const Json& run, const std::filesystem::path& folder) {
  RecordedRun recorded = {.plans = PlansOf(run)};
  const std::string timeline = run.at("timeline");
  const int ranks = run.at("ranks");
  for (int rank = 0; rank < ranks; ++rank) {
    StatusOr<std::vector<Span>> spans =
        ReadSpans((folder / fmt::format("{}.{}", timeline, rank)).string());
    if (!spans.ok()) return spans.status();
    recorded.ranks.push_back(std::move(*spans));
  }
  return recorded;
}

// What each rank of a program wrote by itself, from 0 on as far as there are any.
StatusOr<RecordedRun> ReadTimelines(const std::string& path) {
  RecordedRun recorded;
  std::string of_rank;
  while (std::filesystem::exists(of_rank = fmt::format("{}.{}", path, recorded.ranks.size()))) {
    StatusOr<std::vector<Span>> spans = ReadSpans(of_rank);
    if (!spans.ok()) return spans.status();
    recorded.ranks.push_back(std::move(*spans));
  }
  return recorded;
}

constexpr const char* kValidForm =
    "Give the file of gradwire train --timeline --json FILE, or that of "
    "GRADWIRE_RECORD_TIMELINE=FILE, without the rank behind it";

}  // namespace

StatusOr<RecordedRun> ReadRecordedRun(const std::string& path) {
  if (!std::filesystem::exists(path) && std::filesystem::exists(path + ".0"))
    return ReadTimelines(path);
  std::ifstream file(path);
  if (!file) return Status(gwSystemError, fmt::format("cannot read '{}'", path));
  try {
    const Json run = Json::parse(file);
    if (!run.is_object() || !run.contains("timeline")) {
      return Status(gwInvalidArgument, fmt::format("'{}' tells of no timeline", path), kValidForm);
    }
    return ReadRanks(run, std::filesystem::path(path).parent_path());
  } catch (const std::exception& error) {
    return Status(gwInvalidArgument, fmt::format("{}: {}", path, error.what()), kValidForm);
  }
}

}  // namespace gradwire
