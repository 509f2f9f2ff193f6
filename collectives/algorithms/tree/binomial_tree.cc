// The binomial tree over virtual ranks v = rank - root: v hangs below v without its lowest bit.
#include <bit>
#include <utility>
#include <vector>

#include "collectives/algorithms/common/common.h"
#include "collectives/algorithms/tree/tree.h"

namespace gradwire {
namespace {

constexpr char kName[] = "tree";
// The receiver's announcement and the data go in opposite directions, so both may be message 0.
constexpr int kMessage = 0;

// One rank's place. Edges of level k join v and v + 2^k.
struct Place {
  Place(int rank, int world_size, int tree_root)
      : n(world_size), root(tree_root), v(Wrap(rank - tree_root, world_size)) {}
  int n, root, v;
  int levels() const { return std::bit_width(static_cast<unsigned>(n - 1)); }
  // Level of the edge to the parent; one above all edges for the root.
  int level() const { return v == 0 ? levels() : std::countr_zero(static_cast<unsigned>(v)); }
  bool HasChild(int k) const { return v + (1 << k) < n; }
  int RankOf(int virtual_rank) const { return Wrap(virtual_rank + root, n); }
  int Child(int k) const { return RankOf(v + (1 << k)); }
  int Parent() const { return RankOf(v - (1 << level())); }
};

}  // namespace

Schedule MakeTreeBroadcast(int rank, int world_size, int root) {
  if (world_size == 1) return MakeLocalCopy(Collective::kBroadcast, kName);
  const Place place(rank, world_size, root);
  ScheduleBuilder builder(Collective::kBroadcast, rank, world_size, root, /*logical_shards=*/1);
  const bool is_root = rank == root;
  const uint8_t input =
      builder.AddBuffer(BufferRole::kInput, is_root ? EveryShard(1) : EveryShard(0));
  const uint8_t output = builder.AddBuffer(BufferRole::kOutput, {0});
  if (!is_root) builder.Send(place.Parent(), kMessage, /*round=*/0, kNothing);
  for (int k = 0; k < place.level(); ++k) {
    if (place.HasChild(k)) builder.Recv(place.Child(k), kMessage, /*round=*/0, kNothing);
  }
  // The farthest first: its subtree is the deepest. Level k has its round, after the announcements.
  auto round = [&](int k) { return place.levels() - k; };
  if (!is_root) {
    builder.Recv(place.Parent(), kMessage, round(place.level()), Shard(output, 0));
  }
  const Region data = is_root ? Shard(input, 0) : Shard(output, 0);
  for (int k = place.level() - 1; k >= 0; --k) {
    if (place.HasChild(k)) builder.Send(place.Child(k), kMessage, round(k), data);
  }
  if (is_root) builder.Local(StepKind::kCopy, round(0) + 1, data, Shard(output, 0));
  return std::move(builder).Build(kName);
}

Schedule MakeTreeReduce(int rank, int world_size, int root) {
  if (world_size == 1) return MakeLocalCopy(Collective::kReduce, kName);
  const Place place(rank, world_size, root);
  ScheduleBuilder builder(Collective::kReduce, rank, world_size, root, /*logical_shards=*/1);
  const bool is_root = rank == root;
  const uint8_t input = builder.AddBuffer(BufferRole::kInput, {0});
  const uint8_t output =
      builder.AddBuffer(BufferRole::kOutput, is_root ? EveryShard(1) : EveryShard(0));
  // Only the root's output exists; the others add up in scratch.
  const bool adds = place.level() > 0 && place.HasChild(0);
  const uint8_t scratch =
      builder.AddBuffer(BufferRole::kScratch, adds && !is_root ? EveryShard(1) : EveryShard(0));
  const Region sum = Shard(is_root ? output : scratch, 0);
  Region value = Shard(input, 0);
  for (int k = 0; k < place.level(); ++k) {
    if (place.HasChild(k)) builder.Send(place.Child(k), kMessage, /*round=*/0, kNothing);
  }
  if (!is_root) builder.Recv(place.Parent(), kMessage, /*round=*/0, kNothing);
  for (int k = 0; k < place.level(); ++k) {
    if (!place.HasChild(k)) continue;
    builder.RecvReduce(place.Child(k), kMessage, k + 1, value, sum);
    value = sum;
  }
  if (!is_root) builder.Send(place.Parent(), kMessage, place.level() + 1, value);
  return std::move(builder).Build(kName);
}

WireTotals TreeRootedTotals(int world_size) {
  const int64_t edges = world_size - 1;
  return {.messages = 2 * edges, .shards = edges};
}

}  // namespace gradwire
