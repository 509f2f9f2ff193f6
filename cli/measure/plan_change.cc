#include "cli/measure/plan_change.h"

#include <nlohmann/json.hpp>

namespace gradwire {
namespace {

// Runs of other versions may lack it.
std::optional<double> NumberIn(const nlohmann::json& json, const char* name) {
  const auto it = json.find(name);
  return it == json.end() || it->is_null() ? std::nullopt : std::optional<double>(*it);
}

}  // namespace

PlanChange PlanChangeOf(const nlohmann::json& json) {
  return {.step = json.at("step"),
          .change = json.at("change"),
          .why = json.at("why"),
          .predicted_ms = json.at("predicted_ms"),
          .was_ms = json.at("was_ms"),
          .measured_ms = NumberIn(json, "measured_ms"),
          .error = NumberIn(json, "error"),
          .bound = NumberIn(json, "bound")};
}

JsonValue PlanChangeJson(const PlanChange& plan) {
  return {{"step", plan.step},     {"change", plan.change},
          {"why", plan.why},       {"predicted_ms", plan.predicted_ms},
          {"was_ms", plan.was_ms}, {"measured_ms", plan.measured_ms},
          {"error", plan.error},   {"bound", plan.bound}};
}

}  // namespace gradwire
