// The k-nomial tree over virtual ranks v = rank - root, written to base k, the radix: v hangs below
// v with its lowest digit that is not 0 made 0. With radix 2 it is the binomial tree.
#include <utility>
#include <vector>

#include "collectives/algorithms/common/common.h"
#include "collectives/algorithms/tree/tree.h"

namespace gradwire {
namespace {

struct Kind {
  const char* name;  // in the registry
  int radix;
};
constexpr Kind kBinomial = {.name = "tree", .radix = 2};
// A level takes a + (k - 1) o, with a the time of a message and o that in which its sender can send
// no other. Over shared memory and TCP a / o is 4 to 8, for which log n / log k (a + (k - 1) o) is
// within a tenth of its least at k = 4; larger ones cost more for every byte.
constexpr Kind kQuaternary = {.name = "knomial", .radix = 4};
// What goes up, announcements too, and what goes down may have one number.
constexpr int kMessage = 0;

// Edges of level l join ranks that differ in digit l.
struct Edge {
  int rank, level;
};

struct Place {
  Place(int rank, int n, int root, int radix);
  int levels = 0;
  bool is_root = true;
  Edge parent = {};            // not of the root
  std::vector<Edge> children;  // nearest first
};

Place::Place(int rank, int n, int root, int radix) : is_root(rank == root) {
  const int v = Wrap(rank - root, n);
  bool is_below = false;  // an edge of this or a lower level leads to the parent
  for (int distance = 1; distance < n; distance *= radix, ++levels) {
    if (is_below) continue;
    const int digit = v / distance % radix;
    is_below = digit != 0;
    if (is_below) parent = {.rank = Wrap(v - digit * distance + root, n), .level = levels};
    for (int d = 1; !is_below && d < radix && v + d * distance < n; ++d) {
      children.push_back({.rank = Wrap(v + d * distance + root, n), .level = levels});
    }
  }
}

// Adds what comes from the children to `input`, nearest first, and sends the sum to the parent.
// Level 0 has round `first`.
void AddUp(const Place& place, int first, Region input, Region sum, ScheduleBuilder* builder) {
  Region value = input;
  for (const Edge& child : place.children) {
    builder->RecvReduce(child.rank, kMessage, first + child.level, value, sum);
    value = sum;
  }
  if (place.is_root) return;
  builder->Send(place.parent.rank, kMessage, first + place.parent.level, value);
}

// Passes `data` on from the parent to the children, the farthest first: their subtrees are the
// deepest. Level 0 has round `last`.
void AddDown(const Place& place, int last, Region data, ScheduleBuilder* builder) {
  if (!place.is_root) {
    builder->Recv(place.parent.rank, kMessage, last - place.parent.level, data);
  }
  for (auto child = place.children.rbegin(); child != place.children.rend(); ++child) {
    builder->Send(child->rank, kMessage, last - child->level, data);
  }
}

Schedule MakeBroadcast(const Kind& kind, int rank, int world_size, int root) {
  if (world_size == 1) return MakeLocalCopy(Collective::kBroadcast, kind.name);
  const Place place(rank, world_size, root, kind.radix);
  ScheduleBuilder builder(Collective::kBroadcast, rank, world_size, root, /*logical_shards=*/1);
  const uint8_t input =
      builder.AddBuffer(BufferRole::kInput, place.is_root ? EveryShard(1) : EveryShard(0));
  const uint8_t output = builder.AddBuffer(BufferRole::kOutput, {0});
  if (!place.is_root) builder.Send(place.parent.rank, kMessage, /*round=*/0, kNothing);
  for (const Edge& child : place.children) {
    builder.Recv(child.rank, kMessage, /*round=*/0, kNothing);
  }
  // Every level has its round, after the announcements.
  const Region data = Shard(place.is_root ? input : output, 0);
  AddDown(place, place.levels, data, &builder);
  if (place.is_root) {
    builder.Local(StepKind::kCopy, place.levels + 1, data, Shard(output, 0));
  }
  return std::move(builder).Build(kind.name);
}

Schedule MakeReduce(const Kind& kind, int rank, int world_size, int root) {
  if (world_size == 1) return MakeLocalCopy(Collective::kReduce, kind.name);
  const Place place(rank, world_size, root, kind.radix);
  ScheduleBuilder builder(Collective::kReduce, rank, world_size, root, /*logical_shards=*/1);
  const uint8_t input = builder.AddBuffer(BufferRole::kInput, {0});
  const uint8_t output =
      builder.AddBuffer(BufferRole::kOutput, place.is_root ? EveryShard(1) : EveryShard(0));
  // Only the root's output exists; the others add up in scratch.
  const bool in_scratch = !place.is_root && !place.children.empty();
  const uint8_t scratch =
      builder.AddBuffer(BufferRole::kScratch, in_scratch ? EveryShard(1) : EveryShard(0));
  for (const Edge& child : place.children) {
    builder.Send(child.rank, kMessage, /*round=*/0, kNothing);
  }
  if (!place.is_root) builder.Recv(place.parent.rank, kMessage, /*round=*/0, kNothing);
  AddUp(place, /*first=*/1, Shard(input, 0), Shard(place.is_root ? output : scratch, 0), &builder);
  return std::move(builder).Build(kind.name);
}

}  // namespace

Schedule MakeTreeBroadcast(int rank, int world_size, int root) {
  return MakeBroadcast(kBinomial, rank, world_size, root);
}

Schedule MakeTreeReduce(int rank, int world_size, int root) {
  return MakeReduce(kBinomial, rank, world_size, root);
}

Schedule MakeKnomialBroadcast(int rank, int world_size, int root) {
  return MakeBroadcast(kQuaternary, rank, world_size, root);
}

Schedule MakeKnomialReduce(int rank, int world_size, int root) {
  return MakeReduce(kQuaternary, rank, world_size, root);
}

// What comes down tells a rank that its parent has started, so nobody announces himself.
Schedule MakeKnomialAllReduce(int rank, int world_size, int root) {
  if (world_size == 1) return MakeLocalCopy(Collective::kAllReduce, kQuaternary.name);
  const Place place(rank, world_size, /*root=*/0, kQuaternary.radix);
  ScheduleBuilder builder(Collective::kAllReduce, rank, world_size, root, /*logical_shards=*/1);
  const Region input = Shard(builder.AddBuffer(BufferRole::kInput, {0}), 0);
  const Region output = Shard(builder.AddBuffer(BufferRole::kOutput, {0}), 0);
  AddUp(place, /*first=*/0, input, output, &builder);
  AddDown(place, /*last=*/2 * place.levels - 1, output, &builder);
  return std::move(builder).Build(kQuaternary.name);
}

WireTotals TreeRootedTotals(int world_size) {
  const int64_t edges = world_size - 1;
  return {.messages = 2 * edges, .shards = edges};
}

WireTotals KnomialAllReduceTotals(int world_size) {
  const int64_t edges = world_size - 1;
  return {.messages = 2 * edges, .shards = 2 * edges};
}

}  // namespace gradwire
