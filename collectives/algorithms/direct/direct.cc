#include "collectives/algorithms/direct/direct.h"

#include <utility>

#include "collectives/algorithms/common/common.h"

namespace gradwire {
namespace {

constexpr char kName[] = "direct";
constexpr int kContribution = 0;  // messages
constexpr int kResult = 1;

// Owners 0 and 1 add while receiving. The others put their own contribution in the middle of the
// sum by a local step, and what comes after it is of a later round (invariant I3: a stream runs the
// local steps of a round before its messages).
int ContributionRound(int from, int owner) { return owner >= 2 && from > owner ? 1 : 0; }
constexpr int kResultRound = 2;

// One message from every rank to every other.
struct Phase {
  int message, round;
};

void SendContributions(uint8_t input, ScheduleBuilder* builder) {
  const int rank = builder->rank(), n = builder->world_size();
  for (int d = 1; d < n; ++d) {
    const int owner = Wrap(rank + d, n);
    builder->Send(owner, kContribution, ContributionRound(rank, owner), Shard(input, owner));
  }
}

struct OwnShard {
  Region input, output, scratch;
};

// Owner 0: ((x0 + x1) + x2) + ...; owner 1 starts with x1 + x0, which is the same number. From
// owner 2 on the sum of the ranks below is gathered in scratch, as the output may be the input.
void AddInRankOrder(const OwnShard& own, ScheduleBuilder* builder) {
  const int rank = builder->rank(), n = builder->world_size();
  auto recv_reduce = [&](int from, Region arg, Region dst) {
    builder->RecvReduce(from, kContribution, ContributionRound(from, rank), arg, dst);
  };
  int next = rank + 1;
  if (rank < 2) {
    recv_reduce(1 - rank, own.input, own.output);
    next = 2;
  } else {
    builder->Recv(0, kContribution, ContributionRound(0, rank), own.scratch);
    for (int from = 1; from < rank; ++from) recv_reduce(from, own.scratch, own.scratch);
    builder->Local(StepKind::kReduce, /*round=*/1, own.input, own.output, own.scratch);
  }
  for (int from = next; from < n; ++from) recv_reduce(from, own.output, own.output);
}

uint8_t AddOwnScratch(int rank, ScheduleBuilder* builder) {
  return builder->AddBuffer(BufferRole::kScratch,
                            rank >= 2 ? std::vector<int32_t>{rank} : std::vector<int32_t>{});
}

// Sends `own` to everyone and receives everyone else's shard.
void GatherAll(Phase phase, Region own, uint8_t output, ScheduleBuilder* builder) {
  const int rank = builder->rank(), n = builder->world_size();
  for (int d = 1; d < n; ++d) builder->Send(Wrap(rank + d, n), phase.message, phase.round, own);
  for (int d = 1; d < n; ++d) {
    const int owner = Wrap(rank - d, n);
    builder->Recv(owner, phase.message, phase.round, Shard(output, owner));
  }
}

}  // namespace

Schedule MakeDirectAllReduce(int rank, int world_size, int root) {
  if (world_size == 1) return MakeLocalCopy(Collective::kAllReduce, kName);
  const int n = world_size;
  ScheduleBuilder builder(Collective::kAllReduce, rank, n, root, n);
  const uint8_t input = builder.AddBuffer(BufferRole::kInput, EveryShard(n));
  const uint8_t output = builder.AddBuffer(BufferRole::kOutput, EveryShard(n));
  const uint8_t scratch = AddOwnScratch(rank, &builder);
  const OwnShard own = {Shard(input, rank), Shard(output, rank), Shard(scratch, 0)};
  SendContributions(input, &builder);
  AddInRankOrder(own, &builder);
  GatherAll({kResult, kResultRound}, own.output, output, &builder);
  return std::move(builder).Build(kName);
}

Schedule MakeDirectReduceScatter(int rank, int world_size, int root) {
  if (world_size == 1) return MakeLocalCopy(Collective::kReduceScatter, kName);
  const int n = world_size;
  ScheduleBuilder builder(Collective::kReduceScatter, rank, n, root, n);
  const uint8_t input = builder.AddBuffer(BufferRole::kInput, EveryShard(n));
  const uint8_t output = builder.AddBuffer(BufferRole::kOutput, {rank});
  const uint8_t scratch = AddOwnScratch(rank, &builder);
  SendContributions(input, &builder);
  AddInRankOrder({Shard(input, rank), Shard(output, 0), Shard(scratch, 0)}, &builder);
  return std::move(builder).Build(kName);
}

Schedule MakeDirectAllGather(int rank, int world_size, int root) {
  if (world_size == 1) return MakeLocalCopy(Collective::kAllGather, kName);
  const int n = world_size;
  ScheduleBuilder builder(Collective::kAllGather, rank, n, root, n);
  const uint8_t input = builder.AddBuffer(BufferRole::kInput, {rank});
  const uint8_t output = builder.AddBuffer(BufferRole::kOutput, EveryShard(n));
  GatherAll({kContribution, /*round=*/0}, Shard(input, 0), output, &builder);
  builder.Local(StepKind::kCopy, /*round=*/1, Shard(input, 0), Shard(output, rank));
  return std::move(builder).Build(kName);
}

Schedule MakeDirectAllToAll(int rank, int world_size, int root) {
  if (world_size == 1) return MakeLocalCopy(Collective::kAllToAll, kName);
  const int n = world_size;
  ScheduleBuilder builder(Collective::kAllToAll, rank, n, root, n);
  const uint8_t input = builder.AddBuffer(BufferRole::kInput, EveryShard(n));
  const uint8_t output = builder.AddBuffer(BufferRole::kOutput, EveryShard(n));
  for (int d = 1; d < n; ++d) {
    const int to = Wrap(rank + d, n);
    builder.Send(to, kContribution, /*round=*/0, Shard(input, to));
  }
  for (int d = 1; d < n; ++d) {
    const int from = Wrap(rank - d, n);
    builder.Recv(from, kContribution, /*round=*/0, Shard(output, from));
  }
  builder.Local(StepKind::kCopy, /*round=*/1, Shard(input, rank), Shard(output, rank));
  return std::move(builder).Build(kName);
}

WireTotals DirectAllReduceTotals(int world_size) {
  const int64_t n = world_size;
  return {.messages = 2 * n * (n - 1), .shards = 2 * n * (n - 1)};
}

WireTotals DirectHalfTotals(int world_size) {
  const int64_t n = world_size;
  return {.messages = n * (n - 1), .shards = n * (n - 1)};
}

}  // namespace gradwire
