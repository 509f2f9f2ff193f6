#include "collectives/algorithms/halving_doubling/halving_doubling.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "collectives/algorithms/common/common.h"

namespace gradwire {
namespace {

constexpr char kName[] = "halving_doubling";

// In halving k a rank keeps the first `kept` of the shards it is in charge of, which begin with its
// own, and gives `given` to the rank that comes `kept` places after.
struct Halving {
  int kept, given;
};

std::vector<Halving> HalvingsOf(int n) {
  std::vector<Halving> halvings;
  for (int held = n; held > 1; held = halvings.back().kept) {
    halvings.push_back({.kept = held - held / 2, .given = held / 2});
  }
  return halvings;
}

// Consecutive shards in one message: at most two messages from a rank to another in a round.
struct Piece {
  int number;
  int32_t first, count;
  Region In(uint8_t buffer) const { return {buffer, first, count}; }
  int message(int round) const { return 2 * round + number; }
};

// `count` shards around the circle, from `first` on. Both ends cut them where the circle closes.
std::vector<Piece> Pieces(int first, int count, int n) {
  const int before_end = std::min(count, n - first);
  std::vector<Piece> pieces = {{.number = 0, .first = first, .count = before_end}};
  if (before_end < count) {
    pieces.push_back({.number = 1, .first = 0, .count = count - before_end});
  }
  return pieces;
}

struct Arrays {
  uint8_t input, output;
};

// What was received in the round before. All of it comes before the next send: a piece that is
// passed on as soon as it can be takes the wire from what others still need of this round, which
// costs up to a tenth of the time in the model of collectives/cost.
class LastRound {
 public:
  explicit LastRound(ScheduleBuilder* builder) : builder_(builder) {}
  void Precedes(int32_t send) {
    for (int32_t receive : last_) builder_->Order(receive, send);
  }
  void Received(int32_t receive) { current_.push_back(receive); }
  void Next() { last_ = std::exchange(current_, {}); }

 private:
  ScheduleBuilder* builder_;
  std::vector<int32_t> last_, current_;
};

void AddReduceScatter(const std::vector<Halving>& halvings, const Arrays& arrays,
                      LastRound* last_round, ScheduleBuilder* builder) {
  const int rank = builder->rank(), n = builder->world_size();
  if (n % 2 == 1) {
    // The last shard kept in the first round has no counterpart among those given.
    const int last = Wrap(rank + n / 2, n);
    builder->Local(StepKind::kCopy, /*round=*/0, Shard(arrays.input, last),
                   Shard(arrays.output, last));
  }
  for (int round = 0; round < static_cast<int>(halvings.size()); ++round) {
    const auto [kept, given] = halvings[round];
    const int next = Wrap(rank + kept, n), previous = Wrap(rank - kept, n);
    const uint8_t values = round == 0 ? arrays.input : arrays.output;
    for (const Piece& piece : Pieces(next, given, n)) {
      last_round->Precedes(builder->Send(next, piece.message(round), round, piece.In(values)));
    }
    for (const Piece& piece : Pieces(rank, given, n)) {
      last_round->Received(builder->RecvReduce(previous, piece.message(round), round,
                                               piece.In(values), piece.In(arrays.output)));
    }
    last_round->Next();
  }
}

void AddAllGather(const std::vector<Halving>& halvings, uint8_t output, LastRound* last_round,
                  ScheduleBuilder* builder) {
  const int rank = builder->rank(), n = builder->world_size();
  int round = static_cast<int>(halvings.size());
  for (auto halving = halvings.rbegin(); halving != halvings.rend(); ++halving) {
    const auto [kept, given] = *halving;
    const int next = Wrap(rank + kept, n), previous = Wrap(rank - kept, n);
    for (const Piece& piece : Pieces(rank, given, n)) {
      last_round->Precedes(builder->Send(previous, piece.message(round), round, piece.In(output)));
    }
    for (const Piece& piece : Pieces(next, given, n)) {
      last_round->Received(builder->Recv(next, piece.message(round), round, piece.In(output)));
    }
    last_round->Next();
    ++round;
  }
}

}  // namespace

Schedule MakeHalvingDoublingAllReduce(int rank, int world_size, int root) {
  if (world_size == 1) return MakeLocalCopy(Collective::kAllReduce, kName);
  const int n = world_size;
  ScheduleBuilder builder(Collective::kAllReduce, rank, n, root, n);
  const uint8_t input = builder.AddBuffer(BufferRole::kInput, EveryShard(n));
  const uint8_t output = builder.AddBuffer(BufferRole::kOutput, EveryShard(n));
  const std::vector<Halving> halvings = HalvingsOf(n);
  LastRound last_round(&builder);
  AddReduceScatter(halvings, {.input = input, .output = output}, &last_round, &builder);
  AddAllGather(halvings, output, &last_round, &builder);
  return std::move(builder).Build(kName);
}

// All n ranks send `given` shards, and given - 1 of them past the last shard, in two messages. The
// sum of all `given` is n - 1.
WireTotals HalvingDoublingTotals(int world_size) {
  const int64_t n = world_size;
  const int64_t halvings = std::bit_width(static_cast<unsigned>(world_size - 1));
  return {.messages = 2 * (n - 1) * (halvings + 1), .shards = 2 * n * (n - 1)};
}

}  // namespace gradwire
