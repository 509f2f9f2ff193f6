#include "runtime/controller/plan.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace gradwire {
namespace {

constexpr std::array<bool, 4> kPattern = {false, true, true, false};

// An entry: tensor, a, b. Little-endian, as all of the control plane.
constexpr size_t kHeadBytes = sizeof(uint16_t);
constexpr size_t kEntryBytes = sizeof(uint64_t) + 2;

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
  std::string bytes(kHeadBytes + kEntryBytes * order.entries.size(), '\0');
  std::memcpy(bytes.data(), &order.from_turn, sizeof(order.from_turn));
  char* to = bytes.data() + kHeadBytes;
  for (const PlanEntry& entry : order.entries) {
    std::memcpy(to, &entry.tensor, sizeof(entry.tensor));
    to[sizeof(entry.tensor)] = static_cast<char>(entry.a);
    to[sizeof(entry.tensor) + 1] = static_cast<char>(entry.b);
    to += kEntryBytes;
  }
  return bytes;
}

StatusOr<PlanOrder> DecodeOrder(std::string_view bytes) {
  const Status corrupt(gwDataCorrupt, "a plan of rank 0 cannot be read");
  if (bytes.size() < kHeadBytes || (bytes.size() - kHeadBytes) % kEntryBytes != 0) return corrupt;
  PlanOrder order;
  std::memcpy(&order.from_turn, bytes.data(), sizeof(order.from_turn));
  for (size_t at = kHeadBytes; at < bytes.size(); at += kEntryBytes) {
    PlanEntry entry;
    std::memcpy(&entry.tensor, bytes.data() + at, sizeof(entry.tensor));
    entry.a = static_cast<uint8_t>(bytes[at + sizeof(entry.tensor)]);
    entry.b = static_cast<uint8_t>(bytes[at + sizeof(entry.tensor) + 1]);
    if (!order.entries.empty() && entry.tensor <= order.entries.back().tensor) return corrupt;
    order.entries.push_back(entry);
  }
  return order;
}

}  // namespace gradwire
