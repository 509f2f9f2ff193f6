#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>

#include "collectives/schedule.h"

namespace gradwire {
namespace {

TEST(RegistryTest, RowsAreCompleteAndTheirNamesUnique) {
  std::set<std::tuple<Collective, std::string, bool>> seen;
  for (const AlgorithmRow& row : Algorithms()) {
    EXPECT_TRUE(seen.emplace(row.collective, row.name, row.encoded).second) << row.name;
    EXPECT_FALSE(row.doc.empty()) << row.name;
    ASSERT_NE(row.make, nullptr);
    ASSERT_NE(row.totals, nullptr);
    EXPECT_EQ(row.make(0, 2, 0).collective, row.collective);
  }
}

TEST(RegistryTest, EveryCollectiveHasAnAlgorithm) {
  for (int c = 0; c < kCollectives; ++c) {
    const StatusOr<const AlgorithmRow*> row = ChooseAlgorithm(
        {.collective = static_cast<Collective>(c), .world_size = 4, .bytes = 1 << 20});
    ASSERT_TRUE(row.ok()) << row.status().ToString();
    EXPECT_EQ(static_cast<int>((*row)->collective), c);
    EXPECT_FALSE((*row)->encoded);
  }
}

TEST(RegistryTest, WhereThereIsNoAlgorithmNoneIsChosen) {
  const StatusOr<const AlgorithmRow*> row =
      ChooseAlgorithm({.collective = Collective::kBroadcast, .world_size = 4, .encoded = true});
  EXPECT_EQ(row.status().code(), gwInvalidArgument);
  EXPECT_NE(row.status().ToString().find("encoded broadcast"), std::string::npos)
      << row.status().ToString();
}

TEST(RegistryTest, FindsByName) {
  const auto ring = FindAlgorithm(Collective::kAllGather, "ring");
  ASSERT_TRUE(ring.ok());
  EXPECT_EQ((*ring)->collective, Collective::kAllGather);
  const auto two_shot = FindAlgorithm(Collective::kAllReduce, "two_shot", /*encoded=*/true);
  ASSERT_TRUE(two_shot.ok());
  EXPECT_TRUE((*two_shot)->encoded);
}

TEST(RegistryTest, UnknownNamesGetTheNearest) {
  const Status status = FindAlgorithm(Collective::kAllReduce, "rnig").status();
  EXPECT_EQ(status.code(), gwInvalidArgument);
  EXPECT_NE(status.detail().hint.find("Did you mean 'ring'?"), std::string::npos)
      << status.ToString();
  EXPECT_NE(status.detail().hint.find("direct, ring, tree"), std::string::npos);
  const Status far = FindAlgorithm(Collective::kAllReduce, "quux").status();
  EXPECT_EQ(far.detail().hint.find("There are: direct, ring, tree"), 0u) << far.ToString();
  EXPECT_EQ(FindAlgorithm(Collective::kBroadcast, "tree", /*encoded=*/true).status().code(),
            gwInvalidArgument);
  // An encoded algorithm is no exact one of that name.
  EXPECT_FALSE(FindAlgorithm(Collective::kAllReduce, "two_shot").ok());
}

TEST(ChooseAlgorithmTest, Defaults) {
  auto chosen = [](Collective c, int n, int64_t bytes, bool encoded = false) {
    const AlgorithmNeed need = {
        .collective = c, .world_size = n, .bytes = bytes, .encoded = encoded};
    return (*ChooseAlgorithm(need))->name;
  };
  constexpr int64_t kSmall = 64 * 1024, kLarge = kSmall + 1;
  constexpr int64_t kTiny = 16 * 1024, kFewest = 4 * 1024;
  EXPECT_EQ(chosen(Collective::kAllReduce, 3, kFewest), "knomial");
  EXPECT_EQ(chosen(Collective::kAllReduce, 3, kFewest + 1), "direct");
  EXPECT_EQ(chosen(Collective::kAllReduce, 17, kFewest), "knomial");
  EXPECT_EQ(chosen(Collective::kAllReduce, 4, kFewest), "recursive_doubling");
  EXPECT_EQ(chosen(Collective::kAllReduce, 4, kTiny), "recursive_doubling");
  EXPECT_EQ(chosen(Collective::kAllReduce, 4, kTiny + 1), "direct");
  EXPECT_EQ(chosen(Collective::kAllReduce, 8, kSmall), "direct");
  EXPECT_EQ(chosen(Collective::kAllReduce, 16, kFewest), "recursive_doubling");
  EXPECT_EQ(chosen(Collective::kAllReduce, 8, kFewest), "recursive_doubling");
  EXPECT_EQ(chosen(Collective::kAllReduce, 8, kFewest + 1), "direct");
  EXPECT_EQ(chosen(Collective::kAllReduce, 9, kFewest + 1), "direct");
  EXPECT_EQ(chosen(Collective::kAllReduce, 16, kFewest + 1), "direct");
  EXPECT_EQ(chosen(Collective::kAllReduce, 16, kLarge), "direct");
  EXPECT_EQ(chosen(Collective::kAllReduce, 17, kSmall), "recursive_doubling");
  EXPECT_EQ(chosen(Collective::kAllReduce, 17, kLarge), "ring");
  EXPECT_EQ(chosen(Collective::kAllReduce, 17, kLarge, true), "two_shot");
  EXPECT_EQ(chosen(Collective::kReduceScatter, 17, kLarge, true), "two_shot");
  EXPECT_EQ(chosen(Collective::kAllGather, 16, kLarge), "direct");
  EXPECT_EQ(chosen(Collective::kAllGather, 17, kLarge), "ring");
  EXPECT_EQ(chosen(Collective::kReduceScatter, 17, kLarge), "ring");
  EXPECT_EQ(chosen(Collective::kBroadcast, 3, kLarge), "tree");
  EXPECT_EQ(chosen(Collective::kReduce, 3, kLarge), "tree");
  EXPECT_EQ(chosen(Collective::kReduce, 4, kFewest), "knomial");
  EXPECT_EQ(chosen(Collective::kBroadcast, 4, kFewest), "knomial");
  EXPECT_EQ(chosen(Collective::kBroadcast, 4, kFewest + 1), "tree");
  EXPECT_EQ(chosen(Collective::kBroadcast, 5, kFewest), "tree");
  EXPECT_EQ(chosen(Collective::kAllToAll, 3, kLarge), "direct");
  EXPECT_EQ(chosen(Collective::kBarrier, 3, 0), "dissemination");
}

// What topk and low rank have left to sum grows with the ranks as a plain sum's bytes do.
TEST(ChooseAlgorithmTest, BetweenHostsEightToSixteenRanksSendNoMoreThanTheyMust) {
  for (const int n : {8, 9, 12, 15, 16}) {
    for (const int64_t bytes : {4 * 1024 + 1, 64 * 1024, 1 << 20}) {
      const AlgorithmRow& row = **ChooseAlgorithm(
          {.collective = Collective::kAllReduce, .world_size = n, .bytes = bytes});
      EXPECT_EQ(row.totals(n).shards, 2 * (n - 1) * row.make(0, n, 0).logical_shards)
          << row.name << ", " << n << " ranks, " << bytes << " bytes";
    }
  }
}

TEST(ChooseAlgorithmTest, OneHost) {
  auto chosen = [](Collective c, int n, int64_t bytes, bool encoded = false) {
    const AlgorithmNeed need = {
        .collective = c, .world_size = n, .bytes = bytes, .one_host = true, .encoded = encoded};
    return (*ChooseAlgorithm(need))->name;
  };
  constexpr int64_t kHalfMiB = 512 * 1024, kSmall = 64 * 1024;
  EXPECT_EQ(chosen(Collective::kAllReduce, 9, kSmall), "recursive_doubling");
  EXPECT_EQ(chosen(Collective::kAllReduce, 16, kSmall), "recursive_doubling");
  EXPECT_EQ(chosen(Collective::kAllReduce, 16, kSmall + 1), "direct");
  EXPECT_EQ(chosen(Collective::kAllReduce, 4, kHalfMiB), "direct");
  EXPECT_EQ(chosen(Collective::kAllReduce, 4, kHalfMiB + 1), "halving_doubling");
  EXPECT_EQ(chosen(Collective::kAllReduce, 3, kHalfMiB + 1), "halving_doubling");
  EXPECT_EQ(chosen(Collective::kAllReduce, 16, kHalfMiB + 1), "halving_doubling");
  EXPECT_EQ(chosen(Collective::kAllReduce, 17, kHalfMiB + 1), "ring");
  EXPECT_EQ(chosen(Collective::kAllReduce, 4, kHalfMiB + 1, true), "two_shot");
  EXPECT_EQ(chosen(Collective::kAllGather, 4, kHalfMiB + 1), "direct");
}

}  // namespace
}  // namespace gradwire
