// Plan: which rung of its ladder each tensor of spec `auto` is on. An order is what a vote's result
// brings: the plan from a turn on, or two plans to compare by turns.
#ifndef GRADWIRE_RUNTIME_CONTROLLER_PLAN_H_
#define GRADWIRE_RUNTIME_CONTROLLER_PLAN_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace gradwire {

// A tensor's rungs; `b` differs from `a` while two plans are compared.
struct PlanEntry {
  uint64_t tensor = 0;
  uint8_t a = 0, b = 0;
  friend bool operator==(const PlanEntry&, const PlanEntry&) = default;
};

// Steps of one plan in a row while two are compared: A B B A A B B A and so on, or, where the first
// one in a row tells nothing, A A B B B B A A, which has half as many of those.
inline constexpr uint8_t kInARow = 2;
inline constexpr uint8_t kInARowToSettle = 4;

struct PlanOrder {
  uint16_t from_turn = 0;
  uint8_t in_a_row = kInARow;      // or kInARowToSettle
  std::vector<PlanEntry> entries;  // in order of their tensors; others stay on the lowest rung
  friend bool operator==(const PlanOrder&, const PlanOrder&) = default;
};

// Whether the step at `index`, counted from the first in which two plans are compared, runs plan B:
// A comes first, and last, for half as long as in between.
bool IsOfB(uint16_t index, uint8_t in_a_row);
// Whether `turn`, at or after from_turn, runs plan B.
bool RunsPlanB(const PlanOrder& order, uint16_t turn);
// Of `tensor` in `turn`.
int RungAt(const PlanOrder& order, uint64_t tensor, uint16_t turn);

// Of the turns after the one whose result brings an order, the first that it can be in effect in on
// all ranks: who ends a step without waiting submits one turn ahead of the result.
inline constexpr uint16_t kTurnsToOrder = 2;

std::string EncodeOrder(const PlanOrder& order);
StatusOr<PlanOrder> DecodeOrder(std::string_view bytes);  // any bytes; gwDataCorrupt

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CONTROLLER_PLAN_H_
