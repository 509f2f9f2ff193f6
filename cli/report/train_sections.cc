#include "cli/report/train_sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace gradwire {
namespace {

using Json = nlohmann::json;

std::string Fixed(const Json& value, int digits) {
  return value.is_null() ? "-" : fmt::format("{:.{}f}", value.get<double>(), digits);
}

// By result: the spec, numbered where the run has it several times.
std::vector<std::string> NamesOf(const Json& run) {
  std::vector<std::string> specs, names;
  for (const Json& result : run.at("results")) {
    const std::string spec = result.at("spec");
    const auto before = std::count(specs.begin(), specs.end(), spec);
    names.push_back(before == 0 ? spec : fmt::format("{} ({})", spec, before + 1));
    specs.push_back(spec);
  }
  return names;
}

// Steps in the order of their begin, which the blocks of other settings interrupt.
PlotSeries StepTimes(const std::string& name, const Json& result, double first_s) {
  PlotSeries series = {.name = name, .points = {}};
  for (const Json& block : result.at("blocks")) {
    const Json &begin = block.at("begin_s"), &step = block.at("step_ms");
    for (size_t i = 0; i < step.size(); ++i)
      series.points.push_back({begin.at(i).get<double>() - first_s, step.at(i)});
  }
  return series;
}

double FirstBegin(const Json& run) {
  double first_s = std::numeric_limits<double>::infinity();
  for (const Json& result : run.at("results")) {
    for (const Json& block : result.at("blocks")) {
      for (const Json& begin_s : block.at("begin_s"))
        first_s = std::min(first_s, begin_s.get<double>());
    }
  }
  return first_s;
}

ReportTable Medians(const Json& run, const std::vector<std::string>& names) {
  ReportTable table = {.columns = {"setting", "step_ms", "p10", "p90", "compute_ms", "exposed_ms",
                                   "wire_MB/step", "relerr", "ratio", "low", "high"},
                       .rows = {}};
  for (size_t i = 0; i < names.size(); ++i) {
    constexpr double kMega = 1e6;
    const Json& r = run.at("results").at(i);
    table.rows.push_back(
        {names[i], Fixed(r.at("step_ms"), 2), Fixed(r.at("step_p10_ms"), 2),
         Fixed(r.at("step_p90_ms"), 2), Fixed(r.at("compute_ms"), 2), Fixed(r.at("exposed_ms"), 2),
         Fixed(r.at("wire_bytes").get<double>() / kMega, 3), Fixed(r.at("relerr"), 4),
         Fixed(r.at("ratio"), 3), Fixed(r.at("ratio_low"), 3), Fixed(r.at("ratio_high"), 3)});
  }
  return table;
}

ReportTable PlanChanges(const Json& run, const std::vector<std::string>& names) {
  ReportTable table = {.columns = {"setting", "step", "change", "why", "predicted_ms", "was_ms",
                                   "measured_ms", "error"},
                       .rows = {}};
  for (size_t i = 0; i < names.size(); ++i) {
    for (const Json& plan : run.at("results").at(i).at("plan_changes")) {
      table.rows.push_back({names[i], plan.at("step").dump(), plan.at("change"), plan.at("why"),
                            Fixed(plan.at("predicted_ms"), 1), Fixed(plan.at("was_ms"), 1),
                            Fixed(plan.value("measured_ms", Json()), 1),
                            Fixed(plan.value("error", Json()), 3)});
    }
  }
  return table;
}

ReportSection SectionOf(const ResultFile& file) {
  const Json& run = *file.json;
  const std::string place = PlaceOf(run);
  LinePlot plot = {
      .heading = "Step time", .x = {.label = "seconds"}, .y = {.label = "ms a step"}, .series = {}};
  const double first_s = FirstBegin(run);
  const std::vector<std::string> names = NamesOf(run);
  for (size_t i = 0; i < names.size(); ++i)
    plot.series.push_back(StepTimes(names[i], run.at("results").at(i), first_s));
  ReportSection section = {
      .heading = fmt::format("{}, {} ranks{}{}", run.at("model").at("name").get<std::string>(),
                             run.at("ranks").get<int>(), place.empty() ? "" : ", ", place),
      .plots = {std::move(plot)},
      .tables = {Medians(run, names)},
      .notes = {fmt::format("{}: {}", file.name, run.at("args").get<std::string>()),
                "ratio: of the step time to the first setting's, block by block, with its 95 % "
                "interval"}};
  ReportTable changes = PlanChanges(run, names);
  if (!changes.rows.empty()) section.tables.push_back(std::move(changes));
  return section;
}

}  // namespace

bool IsTrainResult(const Json& json) { return json.contains("nominal_compute_ms"); }

std::vector<ReportSection> TrainSections(std::span<const ResultFile> files) {
  std::vector<ReportSection> report;
  for (const ResultFile& file : files) report.push_back(SectionOf(file));
  return report;
}

}  // namespace gradwire
