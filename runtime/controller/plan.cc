#include "runtime/controller/plan.h"

#include <algorithm>
#include <utility>

#include "base/byte_stream.h"

namespace gradwire {

bool IsOfB(uint16_t index, uint8_t in_a_row) {
  const int place = index % (2 * in_a_row), first = in_a_row / 2;
  return place >= first && place < first + in_a_row;
}

bool RunsPlanB(const PlanOrder& order, uint16_t turn) {
  return IsOfB(static_cast<uint16_t>(turn - order.from_turn), order.in_a_row);
}

int RungAt(const PlanOrder& order, uint64_t tensor, uint16_t turn) {
  const auto it =
      std::lower_bound(order.entries.begin(), order.entries.end(), tensor,
                       [](const PlanEntry& entry, uint64_t id) { return entry.tensor < id; });
  if (it == order.entries.end() || it->tensor != tensor) return 0;
  return RunsPlanB(order, turn) ? it->b : it->a;
}

std::string EncodeOrder(const PlanOrder& order) {
  ByteWriter out;
  out.Put(order.from_turn, order.in_a_row);
  for (const PlanEntry& entry : order.entries) out.Put(entry.tensor, entry.a, entry.b);
  return std::move(out).Take();
}

StatusOr<PlanOrder> DecodeOrder(std::string_view bytes) {
  const Status corrupt(gwDataCorrupt, "a plan of rank 0 cannot be read");
  ByteReader in(bytes);
  PlanOrder order;
  in.Get(&order.from_turn, &order.in_a_row);
  while (in.ok() && !in.at_end()) {
    PlanEntry entry;
    in.Get(&entry.tensor, &entry.a, &entry.b);
    if (!order.entries.empty() && entry.tensor <= order.entries.back().tensor) return corrupt;
    order.entries.push_back(entry);
  }
  const bool is_known = order.in_a_row == kInARow || order.in_a_row == kInARowToSettle;
  if (!in.ok() || !is_known) return corrupt;
  return order;
}

}  // namespace gradwire
