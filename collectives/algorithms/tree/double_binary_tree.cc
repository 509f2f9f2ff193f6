// A heap of n nodes has children at nodes below n / 2 only; mirrored, at ranks from n - n / 2 on.
// That is all it takes to have two trees without a rank that is busy in both.
#include <utility>
#include <vector>

#include "collectives/algorithms/common/common.h"
#include "collectives/algorithms/tree/tree.h"

namespace gradwire {
namespace {

constexpr char kName[] = "tree";
constexpr int kTrees = 2;

int HeapParent(int node) { return (node - 1) / 2; }

// Longest way down to a leaf: heaps are deepest on the left.
int HeapHeight(int node, int n) {
  int height = 0;
  while (2 * node + 1 < n) {
    node = 2 * node + 1;
    ++height;
  }
  return height;
}

int HeapDepth(int node) {
  int depth = 0;
  for (; node > 0; node = HeapParent(node)) ++depth;
  return depth;
}

// One tree seen from one rank.
struct Place {
  int tree, node, n;
  int RankOf(int other) const { return tree == 0 ? other : n - 1 - other; }
  // The right one first: it is never the deeper one, so rounds do not go back.
  std::vector<int> Children() const {
    std::vector<int> children;
    for (int child : {2 * node + 2, 2 * node + 1}) {
      if (child < n) children.push_back(child);
    }
    return children;
  }
  // A node sends up when the deepest leaf below it can have arrived, and down one level per round.
  int UpRound(int from) const { return HeapHeight(from, n); }
  int DownRound(int from) const { return HeapHeight(0, n) + HeapDepth(from); }
  int up_message() const { return 2 * tree; }
  int down_message() const { return 2 * tree + 1; }
};

void AddTree(const Place& place, Region input, Region output, ScheduleBuilder* builder) {
  const std::vector<int> children = place.Children();
  Region sum = input;
  for (int child : children) {
    builder->RecvReduce(place.RankOf(child), place.up_message(), place.UpRound(child), sum, output);
    sum = output;
  }
  if (place.node != 0) {
    const int parent = HeapParent(place.node);
    builder->Send(place.RankOf(parent), place.up_message(), place.UpRound(place.node), sum);
    builder->Recv(place.RankOf(parent), place.down_message(), place.DownRound(parent), output);
  }
  for (int child : children) {
    builder->Send(place.RankOf(child), place.down_message(), place.DownRound(place.node), output);
  }
}

}  // namespace

Schedule MakeTreeAllReduce(int rank, int world_size, int root) {
  if (world_size == 1) return MakeLocalCopy(Collective::kAllReduce, kName);
  ScheduleBuilder builder(Collective::kAllReduce, rank, world_size, root, kTrees);
  const uint8_t input = builder.AddBuffer(BufferRole::kInput, EveryShard(kTrees));
  const uint8_t output = builder.AddBuffer(BufferRole::kOutput, EveryShard(kTrees));
  for (int tree = 0; tree < kTrees; ++tree) {
    const int node = tree == 0 ? rank : world_size - 1 - rank;
    AddTree({.tree = tree, .node = node, .n = world_size}, Shard(input, tree), Shard(output, tree),
            &builder);
  }
  return std::move(builder).Build(kName);
}

WireTotals TreeAllReduceTotals(int world_size) {
  const int64_t edges = world_size - 1;
  return {.messages = 2 * kTrees * edges, .shards = 2 * kTrees * edges};
}

}  // namespace gradwire
