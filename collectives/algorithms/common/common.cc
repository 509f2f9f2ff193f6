#include "collectives/algorithms/common/common.h"

#include <numeric>
#include <utility>

namespace gradwire {

std::vector<int32_t> EveryShard(int n) {
  std::vector<int32_t> shards(n);
  std::iota(shards.begin(), shards.end(), 0);
  return shards;
}

Schedule MakeLocalCopy(Collective collective, std::string_view algorithm) {
  ScheduleBuilder builder(collective, /*rank=*/0, /*world_size=*/1, /*root=*/0,
                          /*logical_shards=*/1);
  if (collective != Collective::kBarrier) {
    const uint8_t input = builder.AddBuffer(BufferRole::kInput, {0});
    const uint8_t output = builder.AddBuffer(BufferRole::kOutput, {0});
    builder.Local(StepKind::kCopy, /*round=*/0, Shard(input, 0), Shard(output, 0));
  }
  return std::move(builder).Build(algorithm);
}

}  // namespace gradwire
