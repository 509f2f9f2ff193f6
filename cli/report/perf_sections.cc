#include "cli/report/perf_sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace gradwire {
namespace {

using Json = nlohmann::json;

// What may tell two lines apart, the most telling first; the file's name is the last. Empty: not
// known.
using Traits = std::array<std::string, 8>;
// What of it a heading tells where all lines agree: number of ranks, place and transport.
constexpr size_t kFirstOfHeading = 1, kLastOfHeading = 3;

struct Measured {
  std::string section;
  Traits traits;
  Json row, timing;
};

std::vector<Measured> RowsOf(const ResultFile& file) {
  std::vector<Measured> rows;
  const Json& run = *file.json;
  const std::string place = PlaceOf(run);
  std::map<std::string, int> times_there;
  for (const Json& row : run.at("results")) {
    const bool in_place = row.at("out_of_place").is_null();
    rows.push_back(
        {.section = fmt::format("{}, {}", row.at("collective").get<std::string>(),
                                row.at("type").get<std::string>()),
         .traits = {row.at("spec").get<std::string>(),
                    fmt::format("{} ranks", row.at("ranks").get<int>()), place,
                    row.at("transport").get<std::string>(), row.at("redop").get<std::string>(),
                    fmt::format("root {}", row.at("root").get<int>()),
                    in_place ? "in place" : "out of place", file.name},
         .row = row,
         .timing = row.at(in_place ? "in_place" : "out_of_place")});
    // A spec that was given twice is two lines.
    Traits& traits = rows.back().traits;
    const int times = ++times_there[fmt::format("{} {} {}", rows.back().section,
                                                row.at("size").dump(), fmt::join(traits, " "))];
    if (times > 1) traits.front() += fmt::format(" ({})", times);
  }
  return rows;
}

bool Differ(const std::vector<Measured>& rows, size_t trait) {
  return std::ranges::any_of(
      rows, [&](const Measured& row) { return row.traits[trait] != rows.front().traits[trait]; });
}

void Append(const std::string& trait, std::string* text) {
  if (!text->empty() && !trait.empty()) *text += ", ";
  *text += trait;
}

// Each row's name: of its traits those in which rows differ, the file's only where no other does.
std::vector<std::string> NamesOf(const std::vector<Measured>& rows) {
  const size_t file = std::tuple_size_v<Traits> - 1;
  std::vector<std::string> names(rows.size());
  for (size_t trait = 0; trait < file; ++trait) {
    if (!Differ(rows, trait)) continue;
    for (size_t i = 0; i < rows.size(); ++i) Append(rows[i].traits[trait], &names[i]);
  }
  // The same line in two files is two lines.
  bool shared = false;
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t k = 0; k < i; ++k)
      shared = shared || (names[i] == names[k] && rows[i].traits[file] != rows[k].traits[file]);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (shared) Append(rows[i].traits[file], &names[i]);
    if (names[i].empty()) names[i] = rows[i].traits.front();
  }
  return names;
}

std::string HeadingOf(std::string heading, const std::vector<Measured>& rows) {
  for (size_t trait = kFirstOfHeading; trait <= kLastOfHeading; ++trait) {
    if (!Differ(rows, trait)) Append(rows.front().traits[trait], &heading);
  }
  return heading;
}

void AddPoint(LinePlot* plot, const std::string& name, PlotPoint point) {
  auto line = std::ranges::find(plot->series, name, &PlotSeries::name);
  if (line == plot->series.end()) line = plot->series.insert(line, {.name = name, .points = {}});
  line->points.push_back(point);
}

std::string NumberText(const Json& value) {
  if (value.is_null()) return "-";
  return value.is_number_integer() ? value.dump() : fmt::format("{:.4g}", value.get<double>());
}

ReportSection SectionOf(const std::string& heading, const std::vector<Measured>& rows) {
  LinePlot bandwidth = {.heading = "Effective bus bandwidth against size",
                        .x = {.label = "bytes of a rank's data", .logarithmic = true},
                        .y = {.label = "eff_busbw, GB/s"},
                        .series = {}};
  LinePlot time = {.heading = "Time against size",
                   .x = bandwidth.x,
                   .y = {.label = "microseconds, median", .logarithmic = true},
                   .series = {}};
  ReportTable table = {.columns = {"setting", "bytes", "time_us", "p99_us", "eff_busbw", "busbw",
                                   "ratio", "enc_us", "dec_us", "relerr", "wrong"},
                       .rows = {}};
  const std::vector<std::string> names = NamesOf(rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& [section, traits, row, timing] = rows[i];
    const double bytes = row.at("size");
    // A barrier has no size to be drawn against.
    if (bytes > 0) {
      AddPoint(&bandwidth, names[i], {bytes, timing.at("eff_busbw")});
      AddPoint(&time, names[i], {bytes, timing.at("time_us")});
    }
    std::vector<std::string> cells = {names[i], row.at("size").dump()};
    for (const char* column : {"time_us", "time_p99_us", "eff_busbw", "busbw"})
      cells.push_back(NumberText(timing.at(column)));
    for (const char* column : {"ratio", "enc_us", "dec_us", "relerr"})
      cells.push_back(NumberText(row.at(column)));
    cells.push_back(NumberText(timing.at("wrong")));
    table.rows.push_back(std::move(cells));
  }
  ReportSection report = {.heading = HeadingOf(heading, rows), .plots = {}, .tables = {table}};
  if (!time.series.empty()) report.plots = {std::move(bandwidth), std::move(time)};
  return report;
}

}  // namespace

bool IsPerfResult(const Json& json) {
  const auto results = json.find("results");
  return results != json.end() && results->is_array() && !results->empty() &&
         results->front().contains("collective");
}

std::vector<ReportSection> PerfSections(std::span<const ResultFile> files) {
  std::vector<std::pair<std::string, std::vector<Measured>>> sections;
  for (const ResultFile& file : files) {
    for (Measured& row : RowsOf(file)) {
      auto at = std::ranges::find(sections, row.section,
                                  &std::pair<std::string, std::vector<Measured>>::first);
      if (at == sections.end()) at = sections.insert(at, {row.section, {}});
      at->second.push_back(std::move(row));
    }
  }
  std::vector<ReportSection> report;
  for (const auto& [heading, rows] : sections) report.push_back(SectionOf(heading, rows));
  if (report.empty()) return report;
  for (const ResultFile& file : files) {
    report.back().notes.push_back(
        fmt::format("{}: {}", file.name, file.json->at("args").get<std::string>()));
  }
  return report;
}

}  // namespace gradwire
