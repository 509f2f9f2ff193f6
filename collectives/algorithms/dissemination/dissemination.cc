#include "collectives/algorithms/dissemination/dissemination.h"

#include <bit>
#include <utility>

#include "collectives/algorithms/common/common.h"

namespace gradwire {
namespace {

constexpr char kName[] = "dissemination";

int Rounds(int n) { return std::bit_width(static_cast<unsigned>(n - 1)); }

}  // namespace

Schedule MakeDisseminationBarrier(int rank, int world_size, int root) {
  if (world_size == 1) return MakeLocalCopy(Collective::kBarrier, kName);
  const int n = world_size;
  ScheduleBuilder builder(Collective::kBarrier, rank, n, root, /*logical_shards=*/1);
  int32_t heard = -1;
  for (int k = 0; k < Rounds(n); ++k) {
    const int distance = 1 << k;
    const int32_t tell = builder.Send(Wrap(rank + distance, n), k, k, kNothing);
    // No data say so: a rank passes on what it has heard only after it has heard it.
    if (heard >= 0) builder.Order(heard, tell);
    const int32_t hear = builder.Recv(Wrap(rank - distance, n), k, k, kNothing);
    if (heard >= 0) builder.Order(heard, hear);
    heard = hear;
  }
  return std::move(builder).Build(kName);
}

WireTotals DisseminationTotals(int world_size) {
  return {.messages = int64_t{world_size} * Rounds(world_size), .shards = 0};
}

}  // namespace gradwire
