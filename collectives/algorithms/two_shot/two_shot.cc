#include "collectives/algorithms/two_shot/two_shot.h"

#include <utility>
#include <vector>

#include "collectives/algorithms/common/common.h"

namespace gradwire {
namespace {

constexpr char kName[] = "two_shot";
constexpr int kContribution = 0;
constexpr int kResult = 1;

// Round 0: encode, send, receive. Round 1: add, encode, send, receive. Round 2: decode.
constexpr int kResultRound = 1;
constexpr int kLastRound = 2;

struct Buffers {
  uint8_t input, output, scratch, payload_out, payload_in, payload_final;
};

Buffers AddBuffers(int rank, int n, const std::vector<int32_t>& output, ScheduleBuilder* builder) {
  Buffers b = {};
  b.input = builder->AddBuffer(BufferRole::kInput, EveryShard(n));
  b.output = builder->AddBuffer(BufferRole::kOutput, output);
  b.scratch = builder->AddBuffer(BufferRole::kScratch, {rank});
  b.payload_out = builder->AddBuffer(BufferRole::kPayload, EveryShard(n));
  b.payload_in = builder->AddBuffer(BufferRole::kPayload, std::vector<int32_t>(n, rank));
  return b;
}

// Encodes and sends shard after shard, so that the first is on its way while the next is encoded.
void SendContributions(const Buffers& b, ScheduleBuilder* builder) {
  const int rank = builder->rank(), n = builder->world_size();
  for (int d = 1; d < n; ++d) {
    const int owner = Wrap(rank + d, n);
    const Region payload = Shard(b.payload_out, owner);
    builder->Local(StepKind::kEncode, /*round=*/0, Shard(b.input, owner), payload);
    builder->Send(owner, kContribution, /*round=*/0, payload);
  }
}

// Each add depends on the one before: a late rank delays the sum but never reorders it.
void AddInRankOrder(const Buffers& b, ScheduleBuilder* builder) {
  const int rank = builder->rank(), n = builder->world_size();
  const Region sum = Shard(b.scratch, 0);
  for (int from = 0; from < n; ++from) {
    if (from != rank) builder->Recv(from, kContribution, /*round=*/0, Shard(b.payload_in, from));
  }
  for (int from = 0; from < n; ++from) {
    if (from == rank && from == 0) {
      builder->Local(StepKind::kCopy, /*round=*/1, Shard(b.input, rank), sum);
    } else if (from == rank) {
      builder->Local(StepKind::kReduce, /*round=*/1, Shard(b.input, rank), sum, sum);
    } else {
      const StepKind kind = from == 0 ? StepKind::kDecode : StepKind::kDecodeAdd;
      builder->Local(kind, /*round=*/1, Shard(b.payload_in, from), sum);
    }
  }
}

void ExchangeResults(const Buffers& b, ScheduleBuilder* builder) {
  const int rank = builder->rank(), n = builder->world_size();
  const Region own = Shard(b.payload_final, rank);
  builder->Local(StepKind::kEncode, kResultRound, Shard(b.scratch, 0), own);
  for (int d = 1; d < n; ++d) {
    builder->Send(Wrap(rank + d, n), kResult, kResultRound, own);
  }
  // The owner, too, uses what the others will see, not its exact sum.
  builder->Local(StepKind::kDecode, kLastRound, own, Shard(b.output, rank));
  for (int d = 1; d < n; ++d) {
    const int owner = Wrap(rank - d, n);
    builder->Recv(owner, kResult, kResultRound, Shard(b.payload_final, owner));
    builder->Local(StepKind::kDecode, kLastRound, Shard(b.payload_final, owner),
                   Shard(b.output, owner));
  }
}

}  // namespace

Schedule MakeTwoShotAllReduce(int rank, int world_size, int root) {
  if (world_size == 1) return MakeLocalCopy(Collective::kAllReduce, kName);
  const int n = world_size;
  ScheduleBuilder builder(Collective::kAllReduce, rank, n, root, n);
  Buffers b = AddBuffers(rank, n, EveryShard(n), &builder);
  b.payload_final = builder.AddBuffer(BufferRole::kPayload, EveryShard(n));
  SendContributions(b, &builder);
  AddInRankOrder(b, &builder);
  ExchangeResults(b, &builder);
  return std::move(builder).Build(kName);
}

Schedule MakeTwoShotReduceScatter(int rank, int world_size, int root) {
  if (world_size == 1) return MakeLocalCopy(Collective::kReduceScatter, kName);
  const int n = world_size;
  ScheduleBuilder builder(Collective::kReduceScatter, rank, n, root, n);
  const Buffers b = AddBuffers(rank, n, {rank}, &builder);
  SendContributions(b, &builder);
  AddInRankOrder(b, &builder);
  builder.Local(StepKind::kCopy, /*round=*/1, Shard(b.scratch, 0), Shard(b.output, 0));
  return std::move(builder).Build(kName);
}

WireTotals TwoShotAllReduceTotals(int world_size) {
  const int64_t n = world_size;
  return {.messages = 2 * n * (n - 1), .shards = 2 * n * (n - 1)};
}

WireTotals TwoShotReduceScatterTotals(int world_size) {
  const int64_t n = world_size;
  return {.messages = n * (n - 1), .shards = n * (n - 1)};
}

}  // namespace gradwire
