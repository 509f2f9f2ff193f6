#include "compress/codecs/powersgd/powersgd_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/conformance/lowrank_world.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

class PowerSgdTest : public testing::Test {
 protected:
  RandomStream random_{TestSeed()};
  testing::ScopedTrace trace_{__FILE__, __LINE__, TestSeedText()};
};

TEST_F(PowerSgdTest, SumsOneFactorARoundTheShorterOneFirst) {
  const auto method = LowRankMethod("powersgd", 4);
  ASSERT_EQ(method->rounds(), 2);
  const auto elems = [&](std::vector<int64_t> shape, int64_t count, int round) {
    return method->Round(round, {.shape = shape, .elems = count}, 8, {}, {}).elems;
  };
  EXPECT_EQ(elems({100, 5, 6}, 3000, 0), 120);
  EXPECT_EQ(elems({100, 5, 6}, 3000, 1), 400);
  EXPECT_EQ(elems({2, 100}, 200, 0), 4);
  EXPECT_EQ(elems({2, 100}, 200, 1), 200);
}

// The result is the projection of the sum to columns that all ranks share, the residual what is
// left of a rank's own matrix: orthogonal to all of them. Of a matrix with more rows than columns
// that holds for its rows.
TEST_F(PowerSgdTest, KeepsBackWhatIsOrthogonalToTheResult) {
  constexpr int64_t kShorter = 30, kLonger = 50;
  for (const MatrixShape& shape :
       {MatrixShape{kShorter, kLonger}, MatrixShape{kLonger, kShorter}}) {
    const bool is_wide = shape.rows < shape.cols;
    const auto at = [&](int64_t along, int64_t across) {
      return is_wide ? along * shape.cols + across : across * shape.cols + along;
    };
    std::vector<Floats> grads;
    for (int r = 0; r < 3; ++r) grads.push_back(Gaussians(shape.elems(), &random_));
    LowRankRanks ranks({.method = "powersgd", .shape = shape, .world_size = 3});
    const Floats sum = ranks.Step(grads);
    for (int r = 0; r < 3; ++r) {
      for (int64_t a = 0; a < kLonger; ++a) {
        for (int64_t b = 0; b < kLonger; ++b) {
          double dot = 0;
          for (int64_t i = 0; i < kShorter; ++i)
            dot += static_cast<double>(sum[at(i, a)]) * ranks.e(r)[at(i, b)];
          ASSERT_NEAR(dot, 0, 1e-3) << "rank " << r << ", " << a << " and " << b;
        }
      }
    }
  }
}

// Where there is no second slot, what is not finite on another rank is known before the residual is
// written.
TEST_F(PowerSgdTest, KeepsResidualsInPlaceWhereAnotherRankIsNotFinite) {
  constexpr int kRanks = 3;
  const MatrixShape shape = {30, 50};
  std::vector<Floats> grads;
  for (int r = 0; r < kRanks; ++r) grads.push_back(Gaussians(shape.elems(), &random_));
  LowRankRanks ranks(
      {.method = "powersgd", .shape = shape, .world_size = kRanks, .mode = ResidualMode::kInPlace});
  ranks.Step(grads);
  const LowRankRanks before = ranks;
  grads[1][random_.Below(grads[1].size())] = NAN;
  const Floats sum = ranks.Step(grads);
  EXPECT_TRUE(std::all_of(sum.begin(), sum.end(), [](float v) { return std::isnan(v); }));
  for (int r = 0; r < kRanks; ++r) EXPECT_EQ(ranks.e(r), before.e(r)) << "rank " << r;
}

TEST_F(PowerSgdTest, StartsWhereTheLastStepEnded) {
  const MatrixShape shape = {60, 60};
  const Floats m = MatrixOf(shape, {5, 4, 3, 2, 1, 1, 1, 1, 1, 1, 1, 1}, &random_);
  const LowRankRanks::Options options = {
      .method = "powersgd", .shape = shape, .mode = ResidualMode::kNone};
  LowRankRanks warm(options), cold(options);
  double warm_error = 0, cold_error = 0;
  for (int step = 0; step < 5; ++step) {
    warm_error = Distance(warm.Step({m}), m);
    cold.set_state({});
    cold_error = Distance(cold.Step({m}), m);
  }
  EXPECT_LT(warm_error, cold_error);
}

// Nor does one that was lost on the way.
TEST_F(PowerSgdTest, AGradientOfZerosKeepsTheStart) {
  const MatrixShape shape = {20, 30};
  LowRankRanks ranks({.method = "powersgd", .shape = shape, .mode = ResidualMode::kNone});
  ranks.Step({Gaussians(shape.elems(), &random_)});
  const auto state = ranks.state();
  EXPECT_TRUE(
      std::any_of(state.begin(), state.end(), [](std::byte b) { return b != std::byte{}; }));
  const Floats zeros(static_cast<size_t>(shape.elems()));
  EXPECT_EQ(ranks.Step({zeros}), zeros);
  EXPECT_EQ(ranks.state(), state);
  ranks.Step({Gaussians(shape.elems(), &random_)}, 1.0f, [](int round, auto* sum) {
    if (round == 1) std::fill(sum->begin(), sum->end(), std::byte{0xFF});
  });
  EXPECT_EQ(ranks.state(), state);
}

TEST_F(PowerSgdTest, ReadsItsSpec) {
  const auto make = [](std::vector<std::pair<std::string, std::string>> args) {
    return PowersgdRow().make({.name = "powersgd", .args = std::move(args)});
  };
  EXPECT_EQ(make({})->spec, "powersgd(rank=4)");
  EXPECT_EQ(make({{"rank", "32"}, {"feedback", "on"}})->spec, "powersgd(rank=32)");
  EXPECT_EQ(make({})->feedback, Feedback::kOn);
  EXPECT_TRUE(make({})->carrier->traits().contractive);
  EXPECT_EQ(make({{"rank", "0"}}).status().code(), gwInvalidArgument);
  EXPECT_EQ(make({{"rank", "33"}}).status().code(), gwInvalidArgument);
  EXPECT_EQ(make({{"feedback", "off"}}).status().code(), gwInvalidArgument);
}

}  // namespace
}  // namespace gradwire
