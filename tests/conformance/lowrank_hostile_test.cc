// What no gradient should be, and what nobody should send or save: the same on all ranks, within
// the buffers, and gone in the next step. And the same bits on all SIMD targets.
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "compress/kernels/dispatch.h"
#include "tests/conformance/lowrank_world.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

class LowRankHostileTest : public testing::TestWithParam<std::string> {
 protected:
  MatrixShape SmallShape() {
    return {1 + static_cast<int64_t>(random_.Below(40)),
            1 + static_cast<int64_t>(random_.Below(40))};
  }
  std::vector<std::byte> RandomBytes(size_t count) {
    std::vector<std::byte> bytes(count);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random_());
    return bytes;
  }

  RandomStream random_{TestSeed()};
  testing::ScopedTrace trace_{__FILE__, __LINE__, TestSeedText()};
};

bool AllAre(const Floats& values, bool (*predicate)(float)) {
  return std::all_of(values.begin(), values.end(), predicate);
}

bool IsNan(float v) { return std::isnan(v); }
bool IsFinite(float v) { return std::isfinite(v); }

// One bad element on one rank: NaN for all, residuals and state as they were, and a next step that
// knows nothing of it.
TEST_P(LowRankHostileTest, OneBadElementLeavesNothingBehind) {
  for (float bad : {NAN, INFINITY, -INFINITY, FLT_MAX}) {
    const MatrixShape shape = SmallShape();
    SCOPED_TRACE(Text(shape) + ", " + std::to_string(bad));
    constexpr int kRanks = 3;
    const LowRankRanks::Options options = {
        .method = GetParam(), .shape = shape, .world_size = kRanks};
    LowRankRanks ranks(options);
    std::vector<Floats> grads;
    for (int r = 0; r < kRanks; ++r) grads.push_back(Gaussians(shape.elems(), &random_));
    for (int step = 0; step < 2; ++step) ranks.Step(grads);
    const LowRankRanks before = ranks;

    auto bad_grads = grads;
    bad_grads[1][random_.Below(bad_grads[1].size())] = bad;
    EXPECT_TRUE(AllAre(ranks.Step(bad_grads), IsNan));
    EXPECT_EQ(ranks.state(), before.state());
    for (int r = 0; r < kRanks; ++r) {
      EXPECT_EQ(ranks.e(r), before.e(r)) << "rank " << r;
      EXPECT_EQ(ranks.result(r).stats.nonfinite, r == 1 ? 1u : 0u);
    }
    EXPECT_EQ(ranks.result(1).stats.sum_p2, 0);
    EXPECT_TRUE(AllAre(ranks.Step(grads), IsFinite));
  }
}

// No rank is too large by itself; a sum of two might be.
TEST_P(LowRankHostileTest, SumsNeverOverflow) {
  const MatrixShape shape = {20, 30};
  for (int n : {1, 2, 8, 16}) {
    for (int exponent = 100; exponent <= 127; ++exponent) {
      const Floats grad(static_cast<size_t>(shape.elems()), std::ldexp(1.0f, exponent));
      LowRankRanks ranks({.method = GetParam(), .shape = shape, .world_size = n});
      const Floats sum = ranks.Step(std::vector<Floats>(static_cast<size_t>(n), grad));
      const bool refused = ranks.result(0).stats.nonfinite > 0;
      ASSERT_TRUE(AllAre(sum, refused ? IsNan : IsFinite)) << n << " ranks, 2^" << exponent;
      for (int r = 0; r < n; ++r) ASSERT_TRUE(AllAre(ranks.e(r), IsFinite));
      ASSERT_FALSE(refused && exponent < 110);
    }
  }
}

TEST_P(LowRankHostileTest, DamagedSumsAreHarmless) {
  for (int trial = 0; trial < 300; ++trial) {
    const MatrixShape shape = SmallShape();
    SCOPED_TRACE(Text(shape));
    LowRankRanks ranks({.method = GetParam(), .shape = shape, .world_size = 2});
    const std::vector<Floats> grads(2, Gaussians(shape.elems(), &random_));
    ranks.Step(grads);
    const auto hit =
        static_cast<int>(random_.Below(static_cast<uint64_t>(ranks.method().rounds())));
    ranks.Step(grads, 1.0f, [&](int round, std::vector<std::byte>* sum) {
      if (round == hit) *sum = RandomBytes(sum->size());
    });
    // Finite damage may be large, and is then fed back.
    for (int r : {0, 1}) ranks.set_e(r, Floats(static_cast<size_t>(shape.elems())));
    EXPECT_TRUE(AllAre(ranks.Step(grads), IsFinite));
  }
}

// Any columns will do to start from.
TEST_P(LowRankHostileTest, AnyStateIsAStart) {
  for (int trial = 0; trial < 300; ++trial) {
    const MatrixShape shape = SmallShape();
    SCOPED_TRACE(Text(shape));
    LowRankRanks ranks({.method = GetParam(), .shape = shape, .world_size = 2});
    const std::vector<Floats> grads(2, Gaussians(shape.elems(), &random_));
    ranks.Step(grads);
    auto state = RandomBytes(ranks.state().size());
    if (trial % 2 == 1) {  // the lowest bit of the exponents' upper parts: finite, up to 2^127
      for (size_t i = 3; i < state.size(); i += 4) state[i] &= std::byte{0xFE};
    }
    ranks.set_state(state);
    for (int r : {0, 1}) ranks.set_e(r, Floats(static_cast<size_t>(shape.elems())));
    const Floats sum = ranks.Step(grads);
    ASSERT_NO_FATAL_FAILURE(ExpectConserved(grads, sum, ranks));
  }
}

// Two steps of all kinds of gradients; everything each rank ends with.
std::vector<std::vector<CarrierRank>> TwoSteps(const CarrierMethod& method,
                                               std::vector<EncodeCase> cases) {
  std::vector<std::vector<CarrierRank>> steps;
  for (int step = 0; step < 2; ++step) {
    steps.push_back(RunCarriers(method, cases, InOrder(static_cast<int>(cases.size())), 0.375f));
    TakeStep(steps.back(), &cases);
  }
  return steps;
}

void ExpectSameRank(const CarrierRank& expected, const CarrierRank& actual) {
  ASSERT_TRUE(expected.filled == actual.filled);
  ASSERT_TRUE(expected.out == actual.out);
  ASSERT_TRUE(expected.replicated == actual.replicated);
  ASSERT_TRUE(SameBits(expected.e_out, actual.e_out));
  const EncodeStats &a = expected.stats, &b = actual.stats;
  ASSERT_EQ(a.nonfinite, b.nonfinite);
  ASSERT_EQ(a.bytes, b.bytes);
  ASSERT_EQ(BitsOf(a.absmax), BitsOf(b.absmax));
  ASSERT_NEAR(a.sum_p2, b.sum_p2, 1e-5 * a.sum_p2);
  ASSERT_NEAR(a.sum_err2, b.sum_err2, 1e-5 * a.sum_err2);
}

TEST_P(LowRankHostileTest, SameBitsOnAllTargetsAndRanksForRandomShapes) {
  for (int trial = 0; trial < 1000; ++trial) {
    const auto method = LowRankMethod(GetParam(), 1 + static_cast<int>(random_.Below(8)));
    const MatrixShape shape = {1 + static_cast<int64_t>(random_.Below(70)),
                               1 + static_cast<int64_t>(random_.Below(70))};
    const Kind kind = kKinds[random_.Below(std::size(kKinds))];
    SCOPED_TRACE("trial " + std::to_string(trial) + ": " + Text(shape) + ", " + Name(kind));
    const EncodeCase common = {.dtype = kGradTypes[random_.Below(3)],
                               .mode = kResidualModes[random_.Below(3)],
                               .dither = {.seed = 9, .tensor = random_()},
                               .shape = {shape.rows, shape.cols}};
    std::vector<EncodeCase> cases(1 + random_.Below(3), common);
    for (EncodeCase& c : cases) {
      c.grad = MakeGrad(kind, shape.elems(), c.dtype, &random_);
      c.e_in = MakeResidual(shape.elems(), &random_);
    }
    ForceTargetForTest(Name(SimdTarget::kScalar));
    const auto expected = TwoSteps(*method, cases);
    for (SimdTarget target : SupportedTargets()) {
      ForceTargetForTest(Name(target));
      const auto actual = TwoSteps(*method, cases);
      for (size_t step = 0; step < actual.size(); ++step) {
        for (size_t r = 0; r < cases.size(); ++r) {
          ASSERT_NO_FATAL_FAILURE(ExpectSameRank(expected[step][r], actual[step][r]))
              << Name(target) << ", step " << step << ", rank " << r;
          ASSERT_TRUE(actual[step][r].out == actual[step][0].out);
          ASSERT_TRUE(actual[step][r].replicated == actual[step][0].replicated);
        }
      }
    }
    ForceTargetForTest("");
  }
}

INSTANTIATE_TEST_SUITE_P(All, LowRankHostileTest, testing::ValuesIn(kLowRankNames),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace gradwire
