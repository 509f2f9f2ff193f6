// What powersgd and acp promise alike: the sum of the ranks' matrices, up to what they keep back,
// close to the best approximation of its rank.
#include "compress/codecs/lowrank_carrier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <numeric>

#include "tests/conformance/lowrank_world.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

// Tall, wide, lines, smaller than the rank, around blocks and tiles of the kernels.
const MatrixShape kShapes[] = {{64, 65}, {200, 9}, {7, 300}, {1, 100}, {100, 1},
                               {1, 1},   {2, 50},  {50, 3},  {4, 4},   {33, 257}};

class LowRankCarrierTest : public testing::TestWithParam<std::string> {
 protected:
  std::vector<Floats> Grads(const MatrixShape& shape, int ranks) {
    std::vector<Floats> grads;
    for (int r = 0; r < ranks; ++r) grads.push_back(Gaussians(shape.elems(), &random_));
    return grads;
  }

  RandomStream random_{TestSeed()};
  testing::ScopedTrace trace_{__FILE__, __LINE__, TestSeedText()};
};

Floats SumOf(const std::vector<Floats>& arrays) {
  Floats sum(arrays[0].size());
  for (size_t i = 0; i < sum.size(); ++i) {
    double exact = 0;
    for (const Floats& array : arrays) exact += array[i];
    sum[i] = static_cast<float>(exact);
  }
  return sum;
}

// With feedback, over several steps: the mean of the residuals is the residual of the mean. Columns
// that nearly depend on each other magnify rounding; few do.
TEST_P(LowRankCarrierTest, RanksAreOneRankWithTheMean) {
  std::vector<double> errors;
  for (const MatrixShape& shape : kShapes) {
    for (int n : {1, 2, 4, 7}) {
      SCOPED_TRACE(Text(shape) + ", " + std::to_string(n) + " ranks");
      const float share = 1.0f / static_cast<float>(n);
      LowRankRanks many({.method = GetParam(), .shape = shape, .world_size = n});
      LowRankRanks one({.method = GetParam(), .shape = shape});
      for (int step = 0; step < 4; ++step) {
        const auto grads = Grads(shape, n);
        const Floats mean = Scaled(SumOf(grads), share);
        const double error = Distance(many.Step(grads, share), one.Step({mean}));
        errors.push_back(error / std::sqrt(Energy(mean) + Energy(one.e(0))));
        ASSERT_LE(errors.back(), 1e-3) << "step " << step;
      }
    }
  }
  const auto most = errors.begin() + static_cast<int64_t>(errors.size()) * 9 / 10;
  std::nth_element(errors.begin(), most, errors.end());
  EXPECT_LE(*most, 1e-5);
}

// Where no columns do, every step has its five digits: all directions are about as large, and the
// ranks are the mean and what cancels.
TEST_P(LowRankCarrierTest, RanksAreOneRankWithAWellConditionedMean) {
  for (const MatrixShape& shape : {MatrixShape{64, 48}, MatrixShape{32, 200}}) {
    std::vector<double> singular_values(static_cast<size_t>(std::min(shape.rows, shape.cols)), 1.0);
    singular_values[0] = 1.5;
    LowRankRanks many({.method = GetParam(), .shape = shape, .world_size = 2});
    LowRankRanks one({.method = GetParam(), .shape = shape});
    for (int step = 0; step < 3; ++step) {
      const Floats matrix = MatrixOf(shape, singular_values, &random_);
      const Floats noise = Scaled(Gaussians(shape.elems(), &random_), 0.1f);
      std::vector<Floats> grads(2, matrix);
      for (size_t i = 0; i < noise.size(); ++i) {
        grads[0][i] += noise[i];
        grads[1][i] -= noise[i];
      }
      const Floats mean = Scaled(SumOf(grads), 0.5f);
      const double error = Distance(many.Step(grads, 0.5f), one.Step({mean}));
      ASSERT_LE(error, 1e-5 * std::sqrt(Energy(mean) + Energy(one.e(0))))
          << Text(shape) << " in step " << step;
    }
  }
}

TEST_P(LowRankCarrierTest, KeepsBackWhatItDoesNotSend) {
  for (const MatrixShape& shape : kShapes) {
    for (float magnitude : {1.0f, 0.0f, 1e30f, 1e-30f, 1e-41f}) {
      for (ResidualMode mode : {ResidualMode::kSeparate, ResidualMode::kInPlace}) {
        SCOPED_TRACE(Text(shape) + ", magnitude " + std::to_string(std::log10(magnitude)));
        const int n = 1 + static_cast<int>(random_.Below(4));
        LowRankRanks ranks({.method = GetParam(), .shape = shape, .world_size = n, .mode = mode});
        for (int step = 0; step < 3; ++step) {
          auto grads = Grads(shape, n);
          for (Floats& grad : grads) grad = Scaled(grad, magnitude);
          auto inputs = grads;
          for (int r = 0; r < n; ++r) {
            for (size_t i = 0; i < inputs[r].size(); ++i) inputs[r][i] += ranks.e(r)[i];
          }
          const Floats sum = ranks.Step(grads);
          ASSERT_NO_FATAL_FAILURE(ExpectConserved(inputs, sum, ranks));
        }
      }
    }
  }
}

TEST_P(LowRankCarrierTest, FindsMatricesOfNoHigherRank) {
  for (const MatrixShape& shape : kShapes) {
    for (size_t true_rank : {0, 1, 2, 4}) {
      for (float magnitude : {1.0f, 1e30f, 1e-30f}) {
        SCOPED_TRACE(Text(shape) + ", true rank " + std::to_string(true_rank));
        const auto most = static_cast<size_t>(std::min(shape.rows, shape.cols));
        std::vector<double> values(std::min(true_rank, most));
        for (size_t k = 0; k < values.size(); ++k) values[k] = static_cast<double>(3 + k);
        const Floats m = Scaled(MatrixOf(shape, values, &random_), magnitude);
        const double norm = std::sqrt(Energy(m));
        LowRankRanks ranks({.method = GetParam(), .shape = shape, .mode = ResidualMode::kNone});
        for (int step = 0; step < 3; ++step) ranks.Step({m});
        ASSERT_LE(Distance(ranks.Step({m}), m), 1e-5 * norm);
        LowRankRanks fed_back({.method = GetParam(), .shape = shape});
        for (int step = 0; step < 4; ++step) fed_back.Step({m});
        // What the first, random columns have hardly seen comes with their noise.
        for (int step = 0; step < 8; ++step) fed_back.Step({Scaled(m, 0)});
        ASSERT_LE(std::sqrt(Energy(fed_back.e(0))), 1e-5 * norm);
      }
    }
  }
}

std::vector<double> HarmonicSpectrum(size_t count) {
  std::vector<double> values(count);
  for (size_t k = 0; k < count; ++k) values[k] = 1.0 / static_cast<double>(k + 1);
  return values;
}

constexpr int kPowerIterations = 16;

// The same matrix in every step: each round is half a power iteration.
TEST_P(LowRankCarrierTest, TendsToTheBestApproximationOfItsRank) {
  for (const MatrixShape& shape :
       {MatrixShape{60, 80}, MatrixShape{300, 20}, MatrixShape{24, 90}}) {
    for (int rank : {1, 2, 4, 8}) {
      SCOPED_TRACE(Text(shape) + ", rank " + std::to_string(rank));
      const auto values = HarmonicSpectrum(20);
      const Floats m = MatrixOf(shape, values, &random_);
      const double best = std::sqrt(std::transform_reduce(
          values.begin() + rank, values.end(), 0.0, std::plus(), [](double v) { return v * v; }));
      LowRankRanks ranks(
          {.method = GetParam(), .rank = rank, .shape = shape, .mode = ResidualMode::kNone});
      double last = std::sqrt(Energy(m));
      const int steps = 2 * kPowerIterations / ranks.method().rounds();
      for (int step = 0; step < steps; ++step) {
        const double error = Distance(ranks.Step({m}), m);
        ASSERT_LE(error, last * (1 + 1e-5)) << "step " << step;
        ASSERT_GE(error, best * (1 - 1e-4)) << "step " << step;
        last = error;
      }
      EXPECT_LE(last, 1.05 * best);
    }
  }
}

// What one step misses comes with later ones: the residual stays bounded, so that the mean of the
// results tends to the gradient.
TEST_P(LowRankCarrierTest, FeedbackDeliversWhatTheRankMisses) {
  const MatrixShape shape = {40, 30};
  const Floats m = MatrixOf(shape, std::vector<double>(16, 1.0), &random_);
  LowRankRanks ranks({.method = GetParam(), .rank = 2, .shape = shape});
  Floats total(m.size());
  constexpr int kSteps = 200;
  for (int step = 0; step < kSteps; ++step) total = SumOf({total, ranks.Step({m})});
  EXPECT_LE(Distance(Scaled(total, 1.0f / kSteps), m), 0.1 * std::sqrt(Energy(m)));
}

TEST_P(LowRankCarrierTest, FirstColumnsDifferByTensorAndNotByRank) {
  const MatrixShape shape = {30, 40};
  const auto grads = Grads(shape, 3);
  std::vector<Floats> sums;
  for (uint64_t tensor : {1, 1, 2}) {
    LowRankRanks ranks({.method = GetParam(), .shape = shape, .world_size = 3, .tensor = tensor});
    sums.push_back(ranks.Step(grads));  // which expects the same on all ranks
  }
  EXPECT_EQ(sums[0], sums[1]);
  EXPECT_NE(sums[0], sums[2]);
}

TEST_P(LowRankCarrierTest, MeasuresWhatItReadsSendsAndKeeps) {
  const MatrixShape shape = {50, 70};
  const Floats grad = Gaussians(shape.elems(), &random_);
  for (ResidualMode mode : {ResidualMode::kSeparate, ResidualMode::kInPlace}) {
    LowRankRanks ranks({.method = GetParam(), .shape = shape, .mode = mode});
    ranks.Step({grad});
    const EncodeStats& stats = ranks.result(0).stats;
    EXPECT_NEAR(stats.sum_p2, Energy(grad), 1e-5 * Energy(grad));
    EXPECT_NEAR(stats.sum_err2, Energy(ranks.e(0)), 1e-5 * Energy(grad));
    const auto largest = std::max_element(
        grad.begin(), grad.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); });
    EXPECT_EQ(stats.absmax, std::fabs(*largest));
    EXPECT_EQ(stats.nonfinite, 0u);
    int64_t filled = 0;
    for (const auto& bytes : ranks.result(0).filled) filled += static_cast<int64_t>(bytes.size());
    EXPECT_EQ(stats.bytes, filled);
  }
}

TEST_P(LowRankCarrierTest, RefusesWhatIsNoMatrix) {
  const auto method = LowRankMethod(GetParam(), 4);
  const auto check = [&](std::vector<int64_t> shape, DType dtype) {
    int64_t elems = 1;
    for (int64_t extent : shape) elems *= extent;
    return method->Check({.shape = shape, .elems = elems, .dtype = dtype}, 2).code();
  };
  EXPECT_EQ(check({3, 4}, DType::kFloat32), gwSuccess);
  EXPECT_EQ(check({1, 1}, DType::kFloat16), gwSuccess);
  EXPECT_EQ(check({8, 3, 3, 3}, DType::kBfloat16), gwSuccess);
  EXPECT_EQ(check({}, DType::kFloat32), gwInvalidArgument);
  EXPECT_EQ(check({12}, DType::kFloat32), gwInvalidArgument);
  EXPECT_EQ(check({0, 4}, DType::kFloat32), gwInvalidArgument);
  EXPECT_EQ(check({4, 0}, DType::kFloat32), gwInvalidArgument);
  EXPECT_EQ(check({3, 4}, DType::kFloat64), gwInvalidArgument);
  EXPECT_EQ(check({3, 4}, DType::kInt32), gwInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(All, LowRankCarrierTest, testing::ValuesIn(kLowRankNames),
                         [](const auto& info) { return info.param; });

TEST(LowRankDims, FoldsAndClamps) {
  const auto dims = [](std::vector<int64_t> shape, int64_t elems, int rank) {
    return LowRankDimsOf({.shape = shape, .elems = elems}, rank);
  };
  const LowRankDims conv = dims({8, 3, 5, 5}, 600, 4);
  EXPECT_EQ(conv.rows, 8);
  EXPECT_EQ(conv.cols, 75);
  EXPECT_EQ(conv.rank, 4);
  EXPECT_EQ(conv.p_elems(), 32);
  EXPECT_EQ(conv.q_elems(), 300);
  EXPECT_EQ(dims({3, 100}, 300, 32).rank, 3);
  EXPECT_EQ(dims({100, 2}, 200, 32).rank, 2);
  EXPECT_EQ(dims({1, 100}, 100, 1).rank, 1);
}

}  // namespace
}  // namespace gradwire
