#include "cli/advise/advise_report.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "base/json_value.h"
#include "cli/models/model_options.h"
#include "cli/text_output.h"

namespace gradwire {
namespace {

using Json = JsonValue;
using Rows = std::vector<std::vector<std::string>>;

// A table with more rows leaves no room for the first line on most terminals.
constexpr size_t kRowsOfAScreen = 20;

constexpr char kUnknown[] = "-";

constexpr char kNothingHides[] =
    "without compute nothing can hide: give --compute-ms, what a step computes";

std::string LinkLine(const Advice& advice) {
  return fmt::format(
      "# link: a step without compute takes {:.3f} ms with none, {:.3f} ms with bf16; fitted: "
      "{:.1f} "
      "us a message, {:.3g} ns a byte",
      advice.measured.none_ms, advice.measured.bf16_ms, advice.us_per_message,
      1000 * advice.us_per_byte);
}

Rows TensorTable(const Advice& advice) {
  Rows rows = {{"# tensor", "elems", "choice", "without_ms", "gain_ms", "saved"}};
  for (const TensorAdvice& tensor : advice.tensors) {
    rows.push_back({"  " + tensor.name, fmt::to_string(tensor.elems), tensor.choice,
                    fmt::format("{:.3f}", tensor.without_ms), fmt::format("{:.3f}", tensor.gain_ms),
                    fmt::format("{:.1f}%", 100 * tensor.saved)});
  }
  return rows;
}

std::string Text(const std::optional<double>& value) {
  return value ? fmt::format("{:.3g}", *value) : kUnknown;
}

std::vector<std::string> PlanCells(const PlanAdvice& plan) {
  return {"  " + plan.name,
          fmt::format("{:.3f}", plan.predicted_ms),
          plan.tried_ms ? fmt::format("{:.3f}", *plan.tried_ms) : kUnknown,
          fmt::format("{:.3f}", 1e-6 * plan.wire_bytes),
          fmt::format("{:.3f}", plan.codec_ms),
          Text(plan.distance),
          Text(plan.bound)};
}

Rows PlanTable(const Advice& advice) {
  Rows rows = {{"# plan", "predicted_ms", "tried_ms", "wire_MB", "codec_ms", "distance", "bound"}};
  for (const PlanAdvice& plan : advice.plans) rows.push_back(PlanCells(plan));
  rows.push_back(PlanCells(advice.advised));
  return rows;
}

Json PlanJson(const PlanAdvice& plan) {
  return {{"plan", plan.name},
          {"step_ms", plan.step_ms()},
          {"predicted_ms", plan.predicted_ms},
          {"tried_ms", plan.tried_ms},
          {"wire_bytes", plan.wire_bytes},
          {"codec_ms", plan.codec_ms},
          {"distance", plan.distance},
          {"bound", plan.bound}};
}

}  // namespace

std::string AdviceText(const AdviseOptions& options, const RunFacts& facts, const Advice& advice) {
  std::string text = Summary(advice) + "\n";
  if (advice.compute_ms == 0) text += fmt::format("# {}\n", kNothingHides);
  for (const std::string& line : HeaderLines(facts, options.command_line)) text += line + "\n";
  text += ModelLine(options.model, options.scale) + "\n";
  text += fmt::format("# compute {:g} ms; {}\n", options.compute_ms, options.automatic.spec);
  text += LinkLine(advice) + "\n";
  text += fmt::format("# tried: {} plan{}\n", advice.tried_plans,
                      advice.tried_plans == 1 ? "" : "s in turns");
  text += FormatColumns(TensorTable(advice)) + FormatColumns(PlanTable(advice));
  for (const std::string& line : FooterLines(facts)) text += line + "\n";
  if (advice.tensors.size() > kRowsOfAScreen) text += "# " + Summary(advice) + "\n";
  return text;
}

std::string AdviceJson(const AdviseOptions& options, const RunFacts& facts, const Advice& advice) {
  Json json = FactsJson(facts, options.command_line);
  json["summary"] = Summary(advice);
  json["compress"] = advice.compress;
  json["tried_plans"] = advice.tried_plans;
  if (advice.compute_ms == 0) json["note"] = kNothingHides;
  json["model"] = ModelJson(options.model, options.scale);
  json["compute_ms"] = advice.compute_ms;
  json["spec"] = options.automatic.spec;
  json["link"] = {{"none_ms", advice.measured.none_ms},
                  {"bf16_ms", advice.measured.bf16_ms},
                  {"us_per_message", advice.us_per_message},
                  {"us_per_byte", advice.us_per_byte}};
  for (const TensorAdvice& tensor : advice.tensors) {
    json["tensors"].push_back({{"name", tensor.name},
                               {"elems", tensor.elems},
                               {"choice", tensor.choice},
                               {"without_ms", tensor.without_ms},
                               {"gain_ms", tensor.gain_ms},
                               {"saved", tensor.saved}});
  }
  for (const PlanAdvice& plan : advice.plans) json["plans"].push_back(PlanJson(plan));
  json["plans"].push_back(PlanJson(advice.advised));
  return json.dump(1) + "\n";
}

}  // namespace gradwire
