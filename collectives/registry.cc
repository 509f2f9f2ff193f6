// Every algorithm of this build. A new one is a folder under algorithms/ and a row here;
// verification, conformance and the command find it by themselves.
#include <fmt/format.h>

#include <bit>
#include <string>
#include <vector>

#include "base/nearest_name.h"
#include "collectives/algorithms/direct/direct.h"
#include "collectives/algorithms/dissemination/dissemination.h"
#include "collectives/algorithms/halving_doubling/halving_doubling.h"
#include "collectives/algorithms/recursive_doubling/recursive_doubling.h"
#include "collectives/algorithms/ring/ring.h"
#include "collectives/algorithms/tree/tree.h"
#include "collectives/algorithms/two_shot/two_shot.h"
#include "collectives/schedule.h"

namespace gradwire {
namespace {

std::vector<AlgorithmRow> MakeTable() {
  using enum Collective;
  constexpr bool kRaw = false, kEncoded = true;
  return {
      {"direct", kAllReduce, kRaw, "everyone to everyone, adds in rank order; 2 messages deep",
       MakeDirectAllReduce, DirectAllReduceTotals},
      {"ring", kAllReduce, kRaw, "neighbour to neighbour; 2(n-1) messages deep, least bytes",
       MakeRingAllReduce, RingAllReduceTotals},
      {"tree", kAllReduce, kRaw, "double binary tree; about 4 log2 n messages deep",
       MakeTreeAllReduce, TreeAllReduceTotals},
      {"recursive_doubling", kAllReduce, kRaw,
       "pairwise exchange of everything; log2 n messages deep, all bytes log2 n times",
       MakeRecursiveDoublingAllReduce, RecursiveDoublingTotals},
      {"halving_doubling", kAllReduce, kRaw,
       "halves of what is left, then doubles of what is done; 2 log2 n messages deep, least bytes",
       MakeHalvingDoublingAllReduce, HalvingDoublingTotals},
      {"knomial", kAllReduce, kRaw,
       "4-nomial tree, up and down; 2 log4 n messages deep, fewest messages", MakeKnomialAllReduce,
       KnomialAllReduceTotals},
      {"two_shot", kAllReduce, kEncoded,
       "encoded shards to their owners, one sum, one encoding back; 2 encodes at any n",
       MakeTwoShotAllReduce, TwoShotAllReduceTotals},
      {"tree", kReduce, kRaw, "binomial tree; log2 n messages deep", MakeTreeReduce,
       TreeRootedTotals},
      {"knomial", kReduce, kRaw, "4-nomial tree; log4 n messages deep", MakeKnomialReduce,
       TreeRootedTotals},
      {"tree", kBroadcast, kRaw, "binomial tree; log2 n messages deep", MakeTreeBroadcast,
       TreeRootedTotals},
      {"knomial", kBroadcast, kRaw, "4-nomial tree; log4 n messages deep", MakeKnomialBroadcast,
       TreeRootedTotals},
      {"direct", kAllGather, kRaw, "everyone to everyone; 1 message deep", MakeDirectAllGather,
       DirectHalfTotals},
      {"ring", kAllGather, kRaw, "neighbour to neighbour; n-1 messages deep", MakeRingAllGather,
       RingHalfTotals},
      {"direct", kReduceScatter, kRaw, "everyone to everyone, adds in rank order; 1 message deep",
       MakeDirectReduceScatter, DirectHalfTotals},
      {"ring", kReduceScatter, kRaw, "neighbour to neighbour; n-1 messages deep",
       MakeRingReduceScatter, RingHalfTotals},
      {"two_shot", kReduceScatter, kEncoded, "encoded shards to their owners, which add; 1 encode",
       MakeTwoShotReduceScatter, TwoShotReduceScatterTotals},
      {"direct", kAllToAll, kRaw, "everyone to everyone; 1 message deep", MakeDirectAllToAll,
       DirectHalfTotals},
      {"dissemination", kBarrier, kRaw, "log2 n rounds of bare headers", MakeDisseminationBarrier,
       DisseminationTotals},
  };
}

std::vector<std::string_view> NamesOf(Collective collective, bool encoded) {
  std::vector<std::string_view> names;
  for (const AlgorithmRow& row : Algorithms()) {
    if (row.collective == collective && row.encoded == encoded) names.push_back(row.name);
  }
  return names;
}

std::string_view DefaultName(const AlgorithmNeed& need) {
  // Below this an all-reduce is bound by latency; above, by bandwidth.
  constexpr int64_t kSmallBytes = 64 * 1024;
  // Below this the number of messages counts, not their size; powers of two need no folding.
  constexpr int64_t kTinyBytes = 16 * 1024;
  // Up to this the number of messages alone counts, on 10 Gbit/s and better, and a tree has the
  // fewest. Without folding, recursive doubling is less deep.
  constexpr int64_t kFewMessagesBytes = 4 * 1024;
  // A 4-nomial tree of so many ranks has one level, a binomial tree two.
  constexpr int kOneLevelRanks = 4;
  constexpr int kDirectRanks = 16, kDirectSmallRanks = 8;
  // On one host ranks share processors: above this it counts how often one waits for several
  // others, not how deep the messages are. docs/performance.md has the figures.
  constexpr int64_t kPairwiseBytes = 512 * 1024;
  const auto [collective, world_size, bytes, one_host, encoded] = need;
  if (encoded) return "two_shot";
  const bool is_power_of_two = std::has_single_bit(static_cast<unsigned>(world_size));
  // Between hosts direct suits so many ranks sooner: it is less deep than recursive doubling, and
  // sends 0.6 of its bytes or less.
  const bool is_direct_early =
      !one_host && world_size >= kDirectSmallRanks && world_size <= kDirectRanks;
  switch (collective) {
    case Collective::kAllReduce:
      if (bytes <= kFewMessagesBytes) return is_power_of_two ? "recursive_doubling" : "knomial";
      if (is_direct_early) return "direct";
      if (bytes <= kSmallBytes && world_size > kDirectSmallRanks) return "recursive_doubling";
      if (bytes <= kTinyBytes && is_power_of_two) return "recursive_doubling";
      if (world_size > kDirectRanks) return "ring";
      return one_host && bytes > kPairwiseBytes ? "halving_doubling" : "direct";
    case Collective::kAllGather:
    case Collective::kReduceScatter: return world_size <= kDirectRanks ? "direct" : "ring";
    case Collective::kReduce:
    case Collective::kBroadcast:
      return bytes <= kFewMessagesBytes && world_size == kOneLevelRanks ? "knomial" : "tree";
    case Collective::kAllToAll: return "direct";
    case Collective::kBarrier: return "dissemination";
  }
  return {};
}

}  // namespace

std::span<const AlgorithmRow> Algorithms() {
  static const std::vector<AlgorithmRow> table = MakeTable();
  return table;
}

StatusOr<const AlgorithmRow*> FindAlgorithm(Collective collective, std::string_view name,
                                            bool encoded) {
  for (const AlgorithmRow& row : Algorithms()) {
    if (row.collective == collective && row.name == name && row.encoded == encoded) return &row;
  }
  const std::vector<std::string_view> names = NamesOf(collective, encoded);
  const char* kind = encoded ? "encoded" : "exact";
  if (names.empty()) {
    return Status(gwInvalidArgument,
                  fmt::format("there is no algorithm for an {} {}", kind, Name(collective)));
  }
  return Status(gwInvalidArgument,
                fmt::format("no algorithm '{}' for an {} {}", name, kind, Name(collective)),
                DidYouMean(name, names, fmt::format("There are: {}", fmt::join(names, ", "))));
}

StatusOr<const AlgorithmRow*> ChooseAlgorithm(const AlgorithmNeed& need) {
  return FindAlgorithm(need.collective, DefaultName(need), need.encoded);
}

StatusOr<const AlgorithmRow*> AlgorithmRule::For(Collective collective, int64_t bytes,
                                                 bool is_encoded) const {
  const AlgorithmRow* const given = is_encoded ? encoded : exact;
  if (given != nullptr && given->collective == collective) return given;
  return ChooseAlgorithm({.collective = collective,
                          .world_size = world_size,
                          .bytes = bytes,
                          .one_host = one_host,
                          .encoded = is_encoded});
}

}  // namespace gradwire
