#include "runtime/controller/plan.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/byte_stream.h"

namespace gradwire {
namespace {

constexpr std::array<bool, 4> kPattern = {false, true, true, false};

}  // namespace

bool RunsPlanB(const PlanOrder& order, uint16_t turn) {
  const auto at = static_cast<uint16_t>(turn - order.from_turn);
  return kPattern[at % kPattern.size()];
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
  out.Put(order.from_turn);
  for (const PlanEntry& entry : order.entries) out.Put(entry.tensor, entry.a, entry.b);
  return std::move(out).Take();
}

StatusOr<PlanOrder> DecodeOrder(std::string_view bytes) {
  const Status corrupt(gwDataCorrupt, "a plan of rank 0 cannot be read");
  ByteReader in(bytes);
  PlanOrder order;
  in.Get(&order.from_turn);
  while (in.ok() && !in.at_end()) {
    PlanEntry entry;
    in.Get(&entry.tensor, &entry.a, &entry.b);
    if (!order.entries.empty() && entry.tensor <= order.entries.back().tensor) return corrupt;
    order.entries.push_back(entry);
  }
  if (!in.ok()) return corrupt;
  return order;
}

}  // namespace gradwire
