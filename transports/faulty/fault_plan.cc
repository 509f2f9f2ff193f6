#include "transports/faulty/fault_plan.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>
#include <vector>

#include "base/nearest_name.h"

namespace gradwire {
namespace {

constexpr std::string_view kPrefix = "faulty(";

// One field of the plan by name. Exactly one of the pointers is set.
struct Field {
  std::string_view name;
  double FaultPlan::*probability = nullptr;
  int64_t FaultPlan::*count = nullptr;
  int64_t least = 0;
};

constexpr std::array kFields = {
    Field{.name = "delay", .probability = &FaultPlan::delay},
    Field{.name = "delay_polls", .count = &FaultPlan::delay_polls, .least = 1},
    Field{.name = "full", .probability = &FaultPlan::full},
    Field{.name = "late_sent", .probability = &FaultPlan::late_sent},
    Field{.name = "corrupt", .probability = &FaultPlan::corrupt},
    Field{.name = "corrupt_at", .count = &FaultPlan::corrupt_at, .least = -1},
    Field{.name = "corrupt_sealed_at", .count = &FaultPlan::corrupt_sealed_at, .least = -1},
    Field{.name = "duplicate", .probability = &FaultPlan::duplicate},
    Field{.name = "lose", .probability = &FaultPlan::lose},
    Field{.name = "lose_at", .count = &FaultPlan::lose_at, .least = -1},
    Field{.name = "run_short_at", .count = &FaultPlan::run_short_at, .least = -1},
};

template <typename T>
bool Parse(std::string_view text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

bool SetField(const Field& field, std::string_view value, FaultPlan* plan) {
  if (field.count != nullptr) {
    int64_t& count = plan->*field.count;
    return Parse(value, &count) && count >= field.least;
  }
  double& probability = plan->*field.probability;
  return Parse(value, &probability) && probability >= 0 && probability <= 1;
}

Status UnknownName(std::string_view name) {
  std::vector<std::string_view> known = {"seed"};
  for (const Field& field : kFields) known.push_back(field.name);
  return Status(gwInvalidArgument, fmt::format("faulty: no option is called '{}'", name),
                DidYouMean(name, known, fmt::format("There are: {}", fmt::join(known, ", "))));
}

Status SetOption(std::string_view text, FaultPlan* plan) {
  const size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : text.substr(equals + 1);
  const Status bad(gwInvalidArgument, fmt::format("faulty: '{}' has no valid value", text),
                   "Probabilities lie between 0 and 1; the others are whole numbers");
  if (name == "seed") return Parse(value, &plan->seed) ? Status::Ok() : bad;
  for (const Field& field : kFields) {
    if (field.name == name) return SetField(field, value, plan) ? Status::Ok() : bad;
  }
  return UnknownName(name);
}

// The end of the first part of "a,b(c,d),e": a comma outside parentheses, or the end.
size_t FirstPart(std::string_view text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')') --depth;
    if (text[i] == ',' && depth == 0) return i;
  }
  return text.size();
}

}  // namespace

StatusOr<FaultPlan> ParseFaultPlan(std::string_view text) {
  FaultPlan plan;
  while (!text.empty()) {
    const size_t end = FirstPart(text);
    GW_RETURN_IF_ERROR(SetOption(text.substr(0, end), &plan));
    if (end + 1 == text.size()) return Status(gwInvalidArgument, "faulty: ends with a comma");
    text.remove_prefix(end == text.size() ? end : end + 1);
  }
  return plan;
}

bool IsFaultySpec(std::string_view text) { return text.starts_with(kPrefix); }

StatusOr<FaultySpec> ParseFaultySpec(std::string_view text) {
  if (!IsFaultySpec(text) || !text.ends_with(')')) {
    return Status(gwInvalidArgument, fmt::format("'{}' is no faulty transport", text),
                  "Write it as faulty(loopback,seed=1,delay=0.2)");
  }
  text.remove_prefix(kPrefix.size());
  text.remove_suffix(1);
  const size_t end = FirstPart(text);
  FaultySpec spec{.inner = std::string(text.substr(0, end)), .plan = {}};
  StatusOr<FaultPlan> plan = ParseFaultPlan(end == text.size() ? "" : text.substr(end + 1));
  if (!plan.ok()) return plan.status();
  spec.plan = *plan;
  return spec;
}

}  // namespace gradwire
