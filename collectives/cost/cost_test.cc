#include "collectives/cost/cost.h"

#include <gtest/gtest.h>

#include <bit>
#include <string_view>
#include <vector>

#include "collectives/verify/world.h"

namespace gradwire {
namespace {

constexpr double kAlpha = 1000, kBeta = 0.5, kGamma = 0.125;
constexpr CostParameters kAll = {
    .alpha_ns = kAlpha, .beta_ns_per_byte = kBeta, .gamma_ns_per_byte = kGamma};
constexpr CostParameters kNoReduce = {.alpha_ns = kAlpha, .beta_ns_per_byte = kBeta};

struct Question {
  Collective collective;
  std::string_view name;
  int n;
  double bytes = 1 << 20;
  CostParameters parameters = kAll;
};

Cost Ask(const Question& q) {
  const bool encoded = q.name == "two_shot";
  const std::vector<Schedule> schedules =
      MakeAll(**FindAlgorithm(q.collective, q.name, encoded), q.n);
  const int32_t shards = schedules[0].logical_shards;
  const ShardBytes bytes = ShardBytesOf(EvenPartition(static_cast<int64_t>(q.bytes), shards), 1,
                                        [](int64_t elems) { return elems / 4; });
  StatusOr<Cost> cost = EstimateCost(schedules, bytes, q.parameters);
  EXPECT_TRUE(cost.ok()) << cost.status().ToString();
  return cost.ok() ? *cost : Cost();
}

TEST(CostTest, RingIsItsFormula) {
  const double bytes = 1 << 20;
  for (int n : {2, 4, 8, 16}) {
    const double part = bytes * (n - 1) / n;
    EXPECT_DOUBLE_EQ(Ask({Collective::kAllReduce, "ring", n}).total_ns,
                     2 * (n - 1) * kAlpha + 2 * part * kBeta + part * kGamma);
    EXPECT_DOUBLE_EQ(Ask({Collective::kReduceScatter, "ring", n}).total_ns,
                     (n - 1) * kAlpha + part * kBeta + part * kGamma);
    EXPECT_DOUBLE_EQ(Ask({Collective::kAllGather, "ring", n}).total_ns,
                     (n - 1) * kAlpha + part * kBeta);
  }
}

TEST(CostTest, RecursiveDoublingIsItsFormula) {
  const double bytes = 1 << 20;
  for (int k : {1, 2, 3, 4}) {
    EXPECT_DOUBLE_EQ(Ask({Collective::kAllReduce, "recursive_doubling", 1 << k}).total_ns,
                     k * (kAlpha + bytes * kBeta + bytes * kGamma));
  }
  // Folding adds a message at each end, of which the first is in part hidden.
  const double folded = Ask({Collective::kAllReduce, "recursive_doubling", 5}).total_ns;
  EXPECT_LE(folded, 4 * (kAlpha + bytes * kBeta) + 3 * bytes * kGamma);
  EXPECT_GT(folded, 3 * (kAlpha + bytes * kBeta) + 2 * bytes * kGamma);
}

TEST(CostTest, DirectIsTwoMessagesDeep) {
  const double bytes = 1 << 20;
  for (int n : {2, 4, 8, 16}) {
    EXPECT_DOUBLE_EQ(Ask({.collective = Collective::kAllReduce,
                          .name = "direct",
                          .n = n,
                          .parameters = kNoReduce})
                         .total_ns,
                     2 * (kAlpha + bytes * (n - 1) / n * kBeta));
  }
}

TEST(CostTest, HalvingDoublingIsItsFormula) {
  const double shard = 1 << 14;
  for (int n : {2, 3, 4, 5, 8, 16, 33, 64}) {
    const int rounds = 2 * std::bit_width(static_cast<unsigned>(n - 1));
    EXPECT_DOUBLE_EQ(Ask({.collective = Collective::kAllReduce,
                          .name = "halving_doubling",
                          .n = n,
                          .bytes = n * shard,
                          .parameters = kNoReduce})
                         .total_ns,
                     rounds * kAlpha + 2 * (n - 1) * shard * kBeta)
        << n;
  }
}

TEST(CostTest, KnomialIsItsFormula) {
  const double bytes = 1 << 10;
  for (int k : {1, 2, 3}) {
    auto cost = [&](Collective collective) {
      return Ask({.collective = collective,
                  .name = "knomial",
                  .n = 1 << (2 * k),
                  .bytes = bytes,
                  .parameters = kNoReduce})
          .total_ns;
    };
    const double formula = k * (kAlpha + 3 * bytes * kBeta);
    EXPECT_DOUBLE_EQ(cost(Collective::kReduce), formula);
    EXPECT_DOUBLE_EQ(cost(Collective::kBroadcast), formula);
    EXPECT_DOUBLE_EQ(cost(Collective::kAllReduce), 2 * formula);
  }
}

TEST(CostTest, BinomialBroadcastIsItsFormula) {
  const double bytes = 1 << 20;
  for (int k : {1, 2, 3, 4}) {
    EXPECT_DOUBLE_EQ(Ask({Collective::kBroadcast, "tree", 1 << k}).total_ns,
                     k * (kAlpha + bytes * kBeta));
  }
}

TEST(CostTest, BarrierIsLogarithmic) {
  EXPECT_DOUBLE_EQ(Ask({Collective::kBarrier, "dissemination", 8}).total_ns, 3 * kAlpha);
  EXPECT_DOUBLE_EQ(Ask({Collective::kBarrier, "dissemination", 9}).total_ns, 4 * kAlpha);
}

TEST(CostTest, LatencyFavoursTreesAndBandwidthRings) {
  auto best = [](double bytes) {
    const double ring = Ask({Collective::kAllReduce, "ring", 64, bytes}).total_ns;
    const double tree = Ask({Collective::kAllReduce, "tree", 64, bytes}).total_ns;
    return ring < tree ? "ring" : "tree";
  };
  EXPECT_STREQ(best(1 << 10), "tree");
  EXPECT_STREQ(best(1 << 26), "ring");
}

TEST(CostTest, EncodingPaysOnASlowWireOnly) {
  auto cost = [](std::string_view name, double beta) {
    return Ask({.collective = Collective::kAllReduce,
                .name = name,
                .n = 4,
                .parameters = {.alpha_ns = kAlpha,
                               .beta_ns_per_byte = beta,
                               .gamma_ns_per_byte = kGamma,
                               .encode_ns_per_byte = 0.3,
                               .decode_ns_per_byte = 0.2}})
        .total_ns;
  };
  EXPECT_LT(cost("two_shot", 8.0), cost("direct", 8.0));
  EXPECT_GT(cost("two_shot", 0.05), cost("direct", 0.05));
}

TEST(CostTest, CountsBytesPerRank) {
  const Cost cost = Ask({Collective::kAllReduce, "two_shot", 4});
  ASSERT_EQ(cost.rank_bytes.size(), 4u);
  for (int64_t bytes : cost.rank_bytes) EXPECT_EQ(bytes, 2 * 3 * (1 << 20) / 4 / 4);
}

TEST(CostTest, IncastIsSerial) {
  // All ranks send to rank 0 at once: its wire in is what takes time.
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < 4; ++rank) {
    ScheduleBuilder builder(Collective::kBarrier, rank, 4, 0, 1);
    const uint8_t input = builder.AddBuffer(BufferRole::kInput, {0});
    const uint8_t scratch = builder.AddBuffer(BufferRole::kScratch, {0, 0, 0});
    if (rank > 0) builder.Send(0, 0, 0, {input, 0, 1});
    for (int from = 1; rank == 0 && from < 4; ++from) {
      builder.Recv(from, 0, 0, {scratch, from - 1, 1});
    }
    schedules.push_back(std::move(builder).Build("incast"));
  }
  StatusOr<Cost> cost = EstimateCost(schedules, ShardBytesOf(EvenPartition(1000, 1), 1), kAll);
  ASSERT_TRUE(cost.ok());
  EXPECT_DOUBLE_EQ(cost->total_ns, kAlpha + 3 * 1000 * kBeta);
}

TEST(EncodesPerElemTest, OfEveryAlgorithm) {
  for (const AlgorithmRow& row : Algorithms()) {
    for (int n : {1, 2, 5}) {
      const StatusOr<int> encodes = EncodesPerElem(MakeAll(row, n));
      ASSERT_TRUE(encodes.ok());
      const int once = row.encoded && n > 1 ? 1 : 0;
      const bool back = row.collective == Collective::kAllReduce;
      EXPECT_EQ(*encodes, back ? 2 * once : once) << row.name << " " << Name(row.collective);
    }
  }
}

// Whatever the root: the walk of few ranks has rank 0.
TEST(EncodesPerElemTest, FewRanksStandForAll) {
  for (const AlgorithmRow& row : Algorithms()) {
    for (int n = 1; n <= 9; ++n) {
      const StatusOr<int> few = EncodesPerElem(row, n);
      ASSERT_TRUE(few.ok());
      for (int root = 0; root < n; ++root) {
        EXPECT_EQ(*EncodesPerElem(MakeAll(row, n, root)), *few)
            << row.name << ", " << n << " ranks";
      }
    }
  }
}

// A walk of them all would take gigabytes.
TEST(EncodesPerElemTest, IsCheapAtManyRanks) {
  EXPECT_EQ(*EncodesPerElem(**FindAlgorithm(Collective::kAllReduce, "two_shot", true), 4096), 2);
}

}  // namespace
}  // namespace gradwire
