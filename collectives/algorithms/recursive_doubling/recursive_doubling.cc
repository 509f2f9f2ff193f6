#include "collectives/algorithms/recursive_doubling/recursive_doubling.h"

#include <bit>
#include <utility>

#include "collectives/algorithms/common/common.h"

namespace gradwire {
namespace {

constexpr char kName[] = "recursive_doubling";

// How n ranks become a power of two of them.
struct Fold {
  explicit Fold(int n)
      : power(static_cast<int>(std::bit_floor(static_cast<unsigned>(n)))), extra(n - power) {}
  int power, extra;
  int exchanges() const { return std::countr_zero(static_cast<unsigned>(power)); }
  bool GivesAway(int rank) const { return rank < 2 * extra && rank % 2 == 0; }
  bool TakesOver(int rank) const { return rank < 2 * extra && rank % 2 == 1; }
  int Number(int rank) const { return rank < 2 * extra ? rank / 2 : rank - extra; }
  int RankOf(int number) const { return number < extra ? 2 * number + 1 : number + extra; }
  int last_round() const { return exchanges() + 2; }
  // Messages: exchange k has number k, the folds follow.
  int fold_message() const { return exchanges(); }
  int unfold_message() const { return exchanges() + 1; }
};

// The exchanges of a rank that stays. What was sent must stay as it is until the send is complete,
// which with rendezvous is when the peer's receive has started: so a sum never goes where the last
// one is, and, as the input may be the output, into the output only from scratch.
void AddExchanges(const Fold& fold, int rank, Region value, Region output, uint8_t scratch,
                  ScheduleBuilder* builder) {
  const int last = fold.exchanges() - 1;
  for (int k = 0; k <= last; ++k) {
    const int peer = fold.RankOf(fold.Number(rank) ^ (1 << k));
    const Region sum = k == last && k > 0 ? output : Shard(scratch, k % 2);
    builder->Send(peer, k, k + 1, value);
    builder->RecvReduce(peer, k, k + 1, value, sum);
    value = sum;
  }
  if (last == 0) builder->Local(StepKind::kCopy, /*round=*/2, value, output);
}

}  // namespace

Schedule MakeRecursiveDoublingAllReduce(int rank, int world_size, int root) {
  if (world_size == 1) return MakeLocalCopy(Collective::kAllReduce, kName);
  const Fold fold(world_size);
  ScheduleBuilder builder(Collective::kAllReduce, rank, world_size, root, /*logical_shards=*/1);
  const Region input = Shard(builder.AddBuffer(BufferRole::kInput, {0}), 0);
  const Region output = Shard(builder.AddBuffer(BufferRole::kOutput, {0}), 0);
  if (fold.GivesAway(rank)) {
    builder.Send(rank + 1, fold.fold_message(), /*round=*/0, input);
    builder.Recv(rank + 1, fold.unfold_message(), fold.last_round(), output);
    return std::move(builder).Build(kName);
  }
  // Two places to alternate between; fewer where there are fewer exchanges.
  const std::vector<int32_t> places(fold.exchanges() > 2 ? 2 : 1, 0);
  const uint8_t scratch = builder.AddBuffer(BufferRole::kScratch, places);
  if (fold.TakesOver(rank)) {
    builder.RecvReduce(rank - 1, fold.fold_message(), /*round=*/0, input, output);
  }
  AddExchanges(fold, rank, fold.TakesOver(rank) ? output : input, output, scratch, &builder);
  if (fold.TakesOver(rank)) {
    builder.Send(rank - 1, fold.unfold_message(), fold.last_round(), output);
  }
  return std::move(builder).Build(kName);
}

WireTotals RecursiveDoublingTotals(int world_size) {
  const Fold fold(world_size);
  const int64_t messages = 2 * fold.extra + int64_t{fold.power} * fold.exchanges();
  return {.messages = messages, .shards = messages};
}

}  // namespace gradwire
