// A decision of the controller of a spec `auto`, as the ledger, `gradwire train` and
// `gradwire trace` tell of it.
#ifndef GRADWIRE_CLI_MEASURE_PLAN_CHANGE_H_
#define GRADWIRE_CLI_MEASURE_PLAN_CHANGE_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/json_value.h"

namespace gradwire {

struct PlanChange {
  uint64_t step = 0;  // whose measurements led to it
  std::string change, why;
  double predicted_ms = 0, was_ms = 0;
  std::optional<double> measured_ms, error, bound;  // as far as known
};

// From the ledger or from what PlanChangeJson wrote. Throws what nlohmann throws.
PlanChange PlanChangeOf(const nlohmann::json& json);

JsonValue PlanChangeJson(const PlanChange& plan);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_MEASURE_PLAN_CHANGE_H_
