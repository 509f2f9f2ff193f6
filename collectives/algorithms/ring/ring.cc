#include "collectives/algorithms/ring/ring.h"

#include <utility>

#include "collectives/algorithms/common/common.h"

namespace gradwire {
namespace {

constexpr char kName[] = "ring";

// Receives and passes on every other shard; the first sent is `own`. Rounds and messages count
// from `first`.
void AddAllGather(int first, Region own, uint8_t output, ScheduleBuilder* builder) {
  const int rank = builder->rank(), n = builder->world_size();
  for (int s = 0; s < n - 1; ++s) {
    const int round = first + s;
    const Region sent = s == 0 ? own : Shard(output, Wrap(rank - s, n));
    builder->Send(Wrap(rank + 1, n), round, round, sent);
    builder->Recv(Wrap(rank - 1, n), round, round, Shard(output, Wrap(rank - s - 1, n)));
  }
}

}  // namespace

Schedule MakeRingAllReduce(int rank, int world_size, int root) {
  if (world_size == 1) return MakeLocalCopy(Collective::kAllReduce, kName);
  const int n = world_size, next = Wrap(rank + 1, n), previous = Wrap(rank - 1, n);
  ScheduleBuilder builder(Collective::kAllReduce, rank, n, root, n);
  const uint8_t input = builder.AddBuffer(BufferRole::kInput, EveryShard(n));
  const uint8_t output = builder.AddBuffer(BufferRole::kOutput, EveryShard(n));
  for (int s = 0; s < n - 1; ++s) {
    // The first send is the caller's own shard; later ones are sums, which only the output holds.
    const int sent = Wrap(rank - 1 - s, n);
    const int added = Wrap(rank - 2 - s, n);
    builder.Send(next, s, s, Shard(s == 0 ? input : output, sent));
    builder.RecvReduce(previous, s, s, Shard(input, added), Shard(output, added));
  }
  AddAllGather(n - 1, Shard(output, rank), output, &builder);
  return std::move(builder).Build(kName);
}

Schedule MakeRingReduceScatter(int rank, int world_size, int root) {
  if (world_size == 1) return MakeLocalCopy(Collective::kReduceScatter, kName);
  const int n = world_size, next = Wrap(rank + 1, n), previous = Wrap(rank - 1, n);
  ScheduleBuilder builder(Collective::kReduceScatter, rank, n, root, n);
  const uint8_t input = builder.AddBuffer(BufferRole::kInput, EveryShard(n));
  const uint8_t output = builder.AddBuffer(BufferRole::kOutput, {rank});
  // Sums on their way to other ranks have no place in the output.
  std::vector<int32_t> passing;
  for (int s = 0; s < n - 2; ++s) passing.push_back(Wrap(rank - 2 - s, n));
  const uint8_t scratch = builder.AddBuffer(BufferRole::kScratch, passing);
  for (int s = 0; s < n - 1; ++s) {
    const Region sent = s == 0 ? Shard(input, Wrap(rank - 1, n)) : Shard(scratch, s - 1);
    const Region sum = s == n - 2 ? Shard(output, 0) : Shard(scratch, s);
    builder.Send(next, s, s, sent);
    builder.RecvReduce(previous, s, s, Shard(input, Wrap(rank - 2 - s, n)), sum);
  }
  return std::move(builder).Build(kName);
}

Schedule MakeRingAllGather(int rank, int world_size, int root) {
  if (world_size == 1) return MakeLocalCopy(Collective::kAllGather, kName);
  const int n = world_size;
  ScheduleBuilder builder(Collective::kAllGather, rank, n, root, n);
  const uint8_t input = builder.AddBuffer(BufferRole::kInput, {rank});
  const uint8_t output = builder.AddBuffer(BufferRole::kOutput, EveryShard(n));
  AddAllGather(/*first=*/0, Shard(input, 0), output, &builder);
  builder.Local(StepKind::kCopy, /*round=*/1, Shard(input, 0), Shard(output, rank));
  return std::move(builder).Build(kName);
}

WireTotals RingAllReduceTotals(int world_size) {
  const int64_t n = world_size;
  return {.messages = 2 * n * (n - 1), .shards = 2 * n * (n - 1)};
}

WireTotals RingHalfTotals(int world_size) {
  const int64_t n = world_size;
  return {.messages = n * (n - 1), .shards = n * (n - 1)};
}

}  // namespace gradwire
