#include "cli/report/report_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cli/report/page_reader.h"
#include "cli/report/perf_sections.h"
#include "cli/report/result_file.h"
#include "cli/report/train_sections.h"
#include "cli/text_input.h"

namespace gradwire {
namespace {

using Json = nlohmann::json;

constexpr char kDefaultTitle[] = "gradwire: measured";

bool IsPage(const Json& json) { return json.contains("page"); }

std::vector<ReportSection> PageSections(std::span<const ResultFile> files) {
  std::vector<ReportSection> sections;
  for (const ResultFile& file : files)
    std::ranges::move(ReadReportPage(*file.json).sections, std::back_inserter(sections));
  return sections;
}

struct ResultKind {
  bool (*is)(const Json& json);
  std::vector<ReportSection> (*sections)(std::span<const ResultFile> files);
};

constexpr std::array kKinds = {
    ResultKind{IsPage, PageSections},
    ResultKind{IsPerfResult, PerfSections},
    ResultKind{IsTrainResult, TrainSections},
};

// The last parts of a path.
std::string LastParts(std::filesystem::path path, int parts) {
  std::filesystem::path name = path.filename();
  while (--parts > 0 && path.has_relative_path()) {
    path = path.parent_path();
    name = path.filename() / name;
  }
  return name.string();
}

// Of each path as many parts as tell it from all others. The paths differ.
std::vector<std::string> ShortNames(std::span<const std::string> paths) {
  std::vector<std::string> names;
  for (const std::string& path : paths) {
    const auto is_shared = [&](int parts) {
      return std::ranges::any_of(paths, [&](const std::string& other) {
        return other != path && LastParts(other, parts) == LastParts(path, parts);
      });
    };
    int parts = 1;
    while (is_shared(parts) && LastParts(path, parts) != LastParts(path, parts + 1)) ++parts;
    names.push_back(LastParts(path, parts));
  }
  return names;
}

StatusOr<ResultFile> ReadResultFile(const std::string& path, const std::string& name) {
  const StatusOr<std::string> text = ReadTextFrom(path);
  if (!text.ok()) return text.status();
  const std::string hint = "Give it what gradwire perf --json or gradwire train --json wrote";
  Json json = Json::parse(*text, nullptr, false);
  if (json.is_discarded())
    return Status(gwInvalidArgument, fmt::format("'{}' is no JSON", path), hint);
  if (!json.is_object() ||
      std::ranges::none_of(kKinds, [&](const ResultKind& kind) { return kind.is(json); })) {
    return Status(gwInvalidArgument, fmt::format("'{}' has no results that a report knows", path),
                  hint);
  }
  return ResultFile{name, std::make_shared<const Json>(std::move(json))};
}

// Title and subtitle are those of a page that is alone.
ReportPage EmptyReport(const std::vector<ResultFile>& files) {
  if (files.size() != 1 || !IsPage(*files[0].json)) return {.title = kDefaultTitle};
  ReportPage page = ReadReportPage(*files[0].json);
  page.sections.clear();
  return page;
}

// What the file's reader throws, as a Status that names the file.
Status CheckResult(const ResultKind& kind, const ResultFile& file) {
  try {
    (void)kind.sections({&file, 1});
    return Status::Ok();
  } catch (const std::exception& error) {
    return Status(gwInvalidArgument, fmt::format("'{}': {}", file.name, error.what()));
  }
}

}  // namespace

StatusOr<ReportPage> BuildReport(std::span<const std::string> paths) {
  std::vector<std::vector<ResultFile>> files(kKinds.size());
  std::vector<ResultFile> all;
  const std::vector<std::string> names = ShortNames(paths);
  for (size_t i = 0; i < paths.size(); ++i) {
    if (std::ranges::count(paths, paths[i]) > 1)
      return Status(gwInvalidArgument, fmt::format("'{}' is given twice", paths[i]));
    StatusOr<ResultFile> file = ReadResultFile(paths[i], names[i]);
    if (!file.ok()) return file.status();
    const auto kind = std::ranges::find_if(
        kKinds, [&](const ResultKind& candidate) { return candidate.is(*file->json); });
    GW_RETURN_IF_ERROR(CheckResult(*kind, *file));
    files[kind - kKinds.begin()].push_back(*file);
    all.push_back(std::move(*file));
  }
  ReportPage page = EmptyReport(all);
  for (size_t kind = 0; kind < kKinds.size(); ++kind) {
    std::ranges::move(kKinds[kind].sections(files[kind]), std::back_inserter(page.sections));
  }
  return page;
}

}  // namespace gradwire
