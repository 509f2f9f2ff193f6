#include "cli/report/page_reader.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace gradwire {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;

template <typename T>
std::optional<T> Optional(const Json& json, const char* key) {
  const auto member = json.find(key);
  if (member == json.end() || member->is_null()) return std::nullopt;
  return member->get<T>();
}

// `read` of each item of a list that may be missing.
template <typename T>
std::vector<T> ReadAll(const Json& json, const char* key, T (*read)(const Json&)) {
  const Json list = json.value(key, Json::array());
  if (!list.is_array()) throw std::invalid_argument(fmt::format("'{}' must be a list", key));
  std::vector<T> items;
  for (const Json& item : list) items.push_back(read(item));
  return items;
}

PlotAxis ReadAxis(const Json& json) {
  return {.label = json.at("label"),
          .logarithmic = json.value("logarithmic", false),
          .low = Optional<double>(json, "low"),
          .high = Optional<double>(json, "high")};
}

// What is no number was written as null.
double ReadNumber(const Json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

PlotPoint ReadPoint(const Json& json) { return {ReadNumber(json.at(0)), ReadNumber(json.at(1))}; }

std::optional<unsigned> ReadColour(const Json& json) {
  const auto colour = Optional<Json>(json, "colour");
  if (!colour) return std::nullopt;
  if (!colour->is_number_unsigned())
    throw std::invalid_argument("'colour' must be a whole number, 0 or more");
  return colour->get<unsigned>();
}

PlotSeries ReadSeries(const Json& json) {
  PlotSeries series = {.name = json.at("name"),
                       .points = ReadAll(json, "points", ReadPoint),
                       .colour = ReadColour(json),
                       .dashed = json.value("dashed", false)};
  std::erase_if(series.points,
                [](const PlotPoint& point) { return std::isnan(point.x) || std::isnan(point.y); });
  return series;
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

// Numbers stand as they are written.
std::string ReadText(const Json& json) {
  return json.is_string() ? json.get<std::string>() : json.dump();
}

std::vector<std::string> ReadRow(const Json& json) {
  return ReadAll(Json{{"row", json}}, "row", ReadText);
}

ReportTable ReadTable(const Json& json) {
  return {.columns = ReadAll(json, "columns", ReadText), .rows = ReadAll(json, "rows", ReadRow)};
}

ReportSection ReadSection(const Json& json) {
  return {.heading = json.value("heading", ""),
          .plots = ReadAll(json, "plots", ReadPlot),
          .tables = ReadAll(json, "tables", ReadTable),
          .notes = ReadAll(json, "notes", ReadText)};
}

}  // namespace

ReportPage ReadReportPage(const Json& json) {
  if (json.at("page") != kFormat) {
    throw std::invalid_argument(fmt::format("its \"page\" is {}, this version knows format {}",
                                            json.at("page").dump(), kFormat));
  }
  return {.title = json.at("title"),
          .subtitle = json.value("subtitle", ""),
          .sections = ReadAll(json, "sections", ReadSection)};
}

}  // namespace gradwire
