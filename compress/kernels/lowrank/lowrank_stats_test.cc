// What passes over a matrix count by the way, on every SIMD target.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/workspace.h"
#include "compress/kernels/dispatch.h"
#include "compress/kernels/lowrank/lowrank.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

using Floats = std::vector<float>;

constexpr int kRank = 3;

// Of magnitudes that differ by tile.
Floats Draw(int64_t elems, RandomStream* random) {
  Floats values(static_cast<size_t>(elems));
  for (size_t i = 0; i < values.size(); ++i) {
    const int exponent = static_cast<int>(i / 100 % 40) - 20;
    values[i] = static_cast<float>(std::ldexp(2 * random->Unit() - 1, exponent));
  }
  return values;
}

double Energy(const Floats& values) {
  double sum = 0;
  for (float v : values) sum += static_cast<double>(v) * v;
  return sum;
}

float LargestFinite(const Floats& values) {
  float largest = 0;
  for (float v : values) largest = std::isfinite(v) ? std::max(largest, std::fabs(v)) : largest;
  return largest;
}

class LowRankStats : public ::testing::TestWithParam<SimdTarget> {
 protected:
  LowRankStats() : random_(TestSeed()), trace_(__FILE__, __LINE__, TestSeedText()) {
    EXPECT_TRUE(ForceTargetForTest(Name(GetParam())));
  }
  ~LowRankStats() override { ForceTargetForTest(""); }

  // Rows and columns around vectors, tiles and blocks of rows.
  void MakeMatrix(int64_t rows, int64_t cols) {
    rows_ = rows, cols_ = cols;
    grad_ = Draw(rows * cols, &random_);
    e_in_ = Draw(rows * cols, &random_);
    p_ = Draw(rows * kRank, &random_);
    q_ = Draw(cols * kRank, &random_);
    ASSERT_TRUE(workspace_.EnsureBytes(LowRankWorkspaceBytes(rows, cols, kRank)).ok());
  }
  LowRankMatrix Matrix() const {
    return {.rows = rows_,
            .cols = cols_,
            .grad = reinterpret_cast<const std::byte*>(grad_.data()),
            .e_in = e_in_.data()};
  }
  // By either factor.
  EncodeStats Multiply(bool by_q, const LowRankMatrix& matrix, float* m_out) {
    EncodeStats stats;
    Floats factor(by_q ? p_.size() : q_.size());
    const LowRankFactorOut out = {.factor = factor.data(), .m_out = m_out, .stats = &stats};
    if (by_q) {
      MultiplyByQ(matrix, q_.data(), kRank, workspace_.bytes(), out);
    } else {
      MultiplyByP(matrix, p_.data(), kRank, workspace_.bytes(), out);
    }
    return stats;
  }
  EncodeStats MultiplyByQAndSubtract(const LowRankMatrix& matrix) {
    EncodeStats stats;
    Floats p(p_.size()), e_out(grad_.size());
    gradwire::MultiplyByQAndSubtract(matrix, q_.data(), kRank, workspace_.bytes(),
                                     {.p = p.data(), .e_out = e_out.data(), .stats = &stats});
    return stats;
  }
  Floats SumOfInputs() const {
    Floats m(grad_.size());
    for (size_t i = 0; i < m.size(); ++i) m[i] = grad_[i] + e_in_[i];
    return m;
  }

  RandomStream random_;
  ::testing::ScopedTrace trace_;
  int64_t rows_ = 0, cols_ = 0;
  Floats grad_, e_in_, p_, q_;
  AlignedBuffer workspace_;
};

constexpr std::pair<int64_t, int64_t> kShapes[] = {{1, 1},    {3, 65},   {4, 64},
                                                   {17, 130}, {33, 257}, {40, 1030}};

TEST_P(LowRankStats, MultiplyingCountsTheMatrix) {
  for (const auto& [rows, cols] : kShapes) {
    ASSERT_NO_FATAL_FAILURE(MakeMatrix(rows, cols));
    SCOPED_TRACE(::testing::Message() << rows << " x " << cols);
    const Floats m = SumOfInputs();
    Floats stored(m.size());
    for (const EncodeStats& stats :
         {Multiply(true, Matrix(), nullptr), Multiply(true, Matrix(), stored.data()),
          Multiply(false, Matrix(), nullptr), Multiply(false, Matrix(), stored.data()),
          MultiplyByQAndSubtract(Matrix())}) {
      EXPECT_EQ(stats.nonfinite, 0u);
      EXPECT_EQ(stats.absmax, LargestFinite(m));
      EXPECT_NEAR(stats.sum_p2, Energy(m), 1e-5 * Energy(m));
    }
  }
}

TEST_P(LowRankStats, MultiplyingCountsWhatIsNotFinite) {
  for (const auto& [rows, cols] : kShapes) {
    ASSERT_NO_FATAL_FAILURE(MakeMatrix(rows, cols));
    grad_.front() = std::numeric_limits<float>::quiet_NaN();
    grad_.back() = std::numeric_limits<float>::infinity();
    const float largest = LargestFinite(SumOfInputs());
    const auto expect_counted = [&](const EncodeStats& stats) {
      EXPECT_EQ(stats.nonfinite, grad_.size() == 1 ? 1u : 2u);
      EXPECT_EQ(stats.absmax, largest);
      EXPECT_EQ(stats.sum_p2, 0);
    };
    expect_counted(MultiplyByQAndSubtract(Matrix()));
    for (bool by_q : {true, false}) {
      SCOPED_TRACE(::testing::Message() << rows << " x " << cols << ", by Q " << by_q);
      Floats separate(grad_.size()), in_place = e_in_;
      LowRankMatrix over_e_in = Matrix();
      over_e_in.e_in = in_place.data();
      expect_counted(Multiply(by_q, Matrix(), nullptr));
      expect_counted(Multiply(by_q, Matrix(), separate.data()));
      expect_counted(Multiply(by_q, over_e_in, in_place.data()));
    }
  }
}

TEST_P(LowRankStats, TheEnergyOfTheDifferenceIsThatOfWhatIsLeft) {
  for (const auto& [rows, cols] : kShapes) {
    ASSERT_NO_FATAL_FAILURE(MakeMatrix(rows, cols));
    Floats e_out(grad_.size());
    const LowRankProduct product = {.rank = kRank, .p = p_.data(), .q = q_.data()};
    SubtractProduct(Matrix(), product, workspace_.bytes(), e_out.data());
    EXPECT_NEAR(EnergyOfDifference(Matrix(), product, workspace_.bytes()), Energy(e_out),
                1e-5 * Energy(e_out))
        << rows << " x " << cols;
  }
}

// A tile of zeros, whose product is not: nothing overflows.
TEST_P(LowRankStats, ErrorsMayBeLargerThanTheMatrix) {
  ASSERT_NO_FATAL_FAILURE(MakeMatrix(33, 257));
  std::fill(grad_.begin(), grad_.end(), 0.0f);
  std::fill(e_in_.begin(), e_in_.end(), 0.0f);
  std::fill(p_.begin(), p_.end(), 0x1p30f);
  std::fill(q_.begin(), q_.end(), 0x1p30f);
  Floats e_out(grad_.size());
  const LowRankProduct product = {kRank, p_.data(), q_.data()};
  SubtractProduct(Matrix(), product, workspace_.bytes(), e_out.data());
  EXPECT_NEAR(EnergyOfDifference(Matrix(), product, workspace_.bytes()), Energy(e_out),
              1e-5 * Energy(e_out));
}

INSTANTIATE_TEST_SUITE_P(All, LowRankStats, ::testing::ValuesIn(SupportedTargets()),
                         [](const auto& param) { return std::string(Name(param.param)); });

}  // namespace
}  // namespace gradwire
