#include "cli/report/page_reader.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace gradwire {
namespace {

using Json = nlohmann::json;

template <typename T>
std::optional<T> Optional(const Json& json, const char* key) {
  const auto member = json.find(key);
  if (member == json.end() || member->is_null()) return std::nullopt;
  return member->get<T>();
}

// `read` of each item of a list that may be missing.
template <typename T>
std::vector<T> ReadAll(const Json& json, const char* key, T (*read)(const Json&)) {
  std::vector<T> items;
  for (const Json& item : json.value(key, Json::array())) items.push_back(read(item));
  return items;
}

PlotAxis ReadAxis(const Json& json) {
  return {.label = json.at("label"),
          .logarithmic = json.value("logarithmic", false),
          .low = Optional<double>(json, "low"),
          .high = Optional<double>(json, "high")};
}

PlotPoint ReadPoint(const Json& json) { return {json.at(0), json.at(1)}; }

PlotSeries ReadSeries(const Json& json) {
  return {.name = json.at("name"),
          .points = ReadAll(json, "points", ReadPoint),
          .colour = Optional<int>(json, "colour"),
          .dashed = json.value("dashed", false)};
}

LinePlot ReadPlot(const Json& json) {
  LinePlot plot = {.heading = json.value("heading", ""),
                   .x = ReadAxis(json.at("x")),
                   .y = ReadAxis(json.at("y")),
                   .series = ReadAll(json, "series", ReadSeries)};
  if (const auto target = Optional<Json>(json, "target"))
    plot.target = {.value = target->at("value"), .text = target->at("text")};
  return plot;
}

ReportTable ReadTable(const Json& json) {
  return {.columns = json.at("columns"), .rows = json.at("rows")};
}

std::string ReadText(const Json& json) { return json.get<std::string>(); }

ReportSection ReadSection(const Json& json) {
  return {.heading = json.value("heading", ""),
          .plots = ReadAll(json, "plots", ReadPlot),
          .tables = ReadAll(json, "tables", ReadTable),
          .notes = ReadAll(json, "notes", ReadText)};
}

}  // namespace

ReportPage ReadReportPage(const Json& json) {
  return {.title = json.at("title"),
          .subtitle = json.value("subtitle", ""),
          .sections = ReadAll(json, "sections", ReadSection)};
}

}  // namespace gradwire
