// What topk(agreement=gather) promises: which elements travel, momentum and its masks, the warm-up,
// and where a gather is refused.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "compress/codecs/topk/topk_gather.h"
#include "tests/conformance/carrier_world.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

using Floats = std::vector<float>;

Floats FloatsOf(const std::vector<std::byte>& bytes) {
  Floats floats(bytes.size() / sizeof(float));
  if (!floats.empty()) std::memcpy(floats.data(), bytes.data(), bytes.size());
  return floats;
}

// Magnitudes descending, of equal ones the lower index first; then ascending.
std::vector<uint32_t> Largest(const Floats& p, int64_t count) {
  std::vector<uint32_t> order(p.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&p](uint32_t a, uint32_t b) { return std::fabs(p[a]) > std::fabs(p[b]); });
  order.resize(static_cast<size_t>(count));
  std::sort(order.begin(), order.end());
  return order;
}

class TopkGather : public ::testing::Test {
 protected:
  TopkGather() : random_(TestSeed()), trace_(__FILE__, __LINE__, TestSeedText()) {}

  std::vector<EncodeCase> Cases(int ranks, int64_t elems) {
    std::vector<EncodeCase> cases;
    for (int r = 0; r < ranks; ++r) {
      EncodeCase c{.mode = ResidualMode::kSeparate, .shape = {elems}};
      c.grad = MakeGrad(Kind::kGaussian, elems, DType::kFloat32, &random_);
      c.e_in = MakeResidual(elems, &random_);
      cases.push_back(std::move(c));
    }
    return cases;
  }

  // What ranks find after a step, as the next begins: with new gradients.
  void Proceed(const std::vector<CarrierRank>& results, std::vector<EncodeCase>* cases) {
    for (size_t r = 0; r < cases->size(); ++r) {
      EncodeCase& c = (*cases)[r];
      c.e_in = results[r].e_out;
      c.local = results[r].local;
      c.replicated = results[r].replicated;
      c.grad = MakeGrad(Kind::kGaussian, c.elems(), DType::kFloat32, &random_);
    }
  }

  RandomStream random_;
  ::testing::ScopedTrace trace_;
};

// In the order of ranks, each of its own.
TEST_F(TopkGather, AddsWhatEachRankFindsLargest) {
  constexpr int64_t kElems = 2000, kSent = 40;
  const auto method = MakeTopkGather({.density = 0.02});
  for (int n : {1, 2, 5, 9, 64}) {
    const auto cases = Cases(n, kElems);
    const auto results = RunCarriers(*method, cases, InOrder(n), 0.5f);
    Floats sum(kElems);
    for (int r = 0; r < n; ++r) {
      Floats kept = cases[r].Input();
      for (uint32_t i : Largest(kept, kSent)) {
        sum[i] += kept[i];
        kept[i] = 0;
      }
      EXPECT_TRUE(SameBits(results[r].e_out, kept)) << "rank " << r << " of " << n;
    }
    for (float& v : sum) v *= 0.5f;
    EXPECT_TRUE(SameBits(FloatsOf(results[n - 1].out), sum)) << n << " ranks";
  }
}

// u' = m u + g and v = e + u', both zero where they were sent: three steps against the formula.
TEST_F(TopkGather, AddsMomentumUpAndMasksWhatWasSent) {
  constexpr int64_t kElems = 1500, kSent = 30;
  constexpr float kMomentum = 0.9f;
  constexpr int kRanks = 3;
  const auto method = MakeTopkGather({.density = 0.02, .momentum = kMomentum});
  auto cases = Cases(kRanks, kElems);
  std::vector<Floats> u(kRanks, Floats(kElems)), v;
  for (const EncodeCase& c : cases) v.push_back(c.e_in);
  for (int step = 0; step < 3; ++step) {
    SCOPED_TRACE(step);
    const auto results = RunCarriers(*method, cases, InOrder(kRanks));
    Floats sum(kElems);
    for (int r = 0; r < kRanks; ++r) {
      const Floats grad = FloatsOf(cases[r].grad);
      for (int64_t i = 0; i < kElems; ++i) {
        u[r][i] = kMomentum * u[r][i] + grad[i];
        v[r][i] += u[r][i];
      }
      for (uint32_t i : Largest(v[r], kSent)) {
        sum[i] += v[r][i];
        u[r][i] = v[r][i] = 0;
      }
      ASSERT_TRUE(SameBits(results[r].local, u[r])) << "rank " << r;
      ASSERT_TRUE(SameBits(results[r].e_out, v[r])) << "rank " << r;
    }
    ASSERT_TRUE(SameBits(FloatsOf(results[0].out), sum));
    Proceed(results, &cases);
  }
}

// Of a rank's payload.
size_t BytesIn(const std::vector<CarrierRank>& results) { return results[0].filled[0].size(); }

// 1/4 and 1/16 for two steps each, where a step that is not finite does not count; then 1 %.
TEST_F(TopkGather, WarmsUpWithMoreElements) {
  constexpr int64_t kElems = 4096;
  constexpr int kRanks = 2;
  const auto bytes_at = [&](double density) {
    return BytesIn(
        RunCarriers(*MakeTopkGather({.density = density}), Cases(kRanks, kElems), InOrder(kRanks)));
  };
  const auto method = MakeTopkGather({.density = 0.01, .warmup_steps = 2});
  auto cases = Cases(kRanks, kElems);
  for (double density : {0.25, 0.25, 0.0625, 0.0625, 0.015625, 0.015625, 0.01, 0.01}) {
    const auto results = RunCarriers(*method, cases, InOrder(kRanks));
    EXPECT_EQ(BytesIn(results), bytes_at(density));
    auto infinite = cases;
    const float infinity = INFINITY;
    std::memcpy(infinite[1].grad.data(), &infinity, sizeof infinity);
    // Before the first step it is zeros.
    cases[0].replicated.resize(4);
    EXPECT_EQ(RunCarriers(*method, infinite, InOrder(kRanks))[0].replicated, cases[0].replicated);
    Proceed(results, &cases);
  }
}

// With sixteen ranks a quarter of the elements would be more than all of them in a ring.
TEST_F(TopkGather, WarmsUpOnlyWhereThatSavesBytes) {
  constexpr int64_t kElems = 4096;
  constexpr int kRanks = 16;
  const auto first = RunCarriers(*MakeTopkGather({.density = 0.01, .warmup_steps = 1}),
                                 Cases(kRanks, kElems), InOrder(kRanks));
  const auto second =
      RunCarriers(*MakeTopkGather({.density = 0.0625}), Cases(kRanks, kElems), InOrder(kRanks));
  EXPECT_EQ(BytesIn(first), BytesIn(second));
}

// The largest density that is named is accepted, and a larger one is not.
TEST_F(TopkGather, IsRefusedWhereASumOfAllElementsMovesLess) {
  const TensorMeta meta = {.elems = 100'000};
  EXPECT_TRUE(MakeTopkGather({.density = 0.01})->Check(meta, 16).ok());
  EXPECT_TRUE(MakeTopkGather({.density = 1})->Check(meta, 1).ok()) << "no codec runs";
  const Status refused = MakeTopkGather({.density = 0.5})->Check(meta, 16);
  EXPECT_EQ(refused.code(), gwInvalidArgument);
  const std::string text = refused.ToString(), from = "up to ";
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << text;
  const double most = std::stod(text.substr(at + from.size()));
  EXPECT_TRUE(MakeTopkGather({.density = most})->Check(meta, 16).ok()) << text;
  EXPECT_FALSE(MakeTopkGather({.density = most + 2e-5})->Check(meta, 16).ok()) << text;
}

// No density is accepted, so none is named.
TEST_F(TopkGather, IsRefusedWhereOneElementIsMoreThanASumOfAll) {
  const Status refused = MakeTopkGather({.density = 0.5})->Check({.elems = 8}, 8);
  EXPECT_EQ(refused.code(), gwInvalidArgument);
  const std::string text = refused.ToString();
  EXPECT_EQ(text.find("up to"), std::string::npos) << text;
  EXPECT_NE(text.find("no density of this tensor is accepted"), std::string::npos) << text;
}

}  // namespace
}  // namespace gradwire
