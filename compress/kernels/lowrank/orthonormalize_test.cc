// Orthonormal columns, and a whole step that needs them.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "base/rng.h"
#include "compress/kernels/dispatch.h"
#include "compress/kernels/lowrank/lowrank.h"
#include "tests/lib/lowrank_cases.h"

namespace gradwire {
namespace {

class OrthonormalizeTest : public OnEachTarget {};

Floats Orthonormal(const Floats& p, int64_t rows, int rank, const Dither& dither = kDither) {
  const Guarded inout(p), workspace = Workspace({rows, 1, rank});
  Orthonormalize(rows, rank, dither, workspace.view(), inout.floats());
  return inout.Copy();
}

void ExpectOrthonormal(const Floats& p, int64_t rows, int rank) {
  for (int a = 0; a < rank; ++a) {
    for (int b = 0; b <= a; ++b) {
      double dot = 0;
      for (int64_t row = 0; row < rows; ++row) {
        dot += static_cast<double>(p[row * rank + a]) * p[row * rank + b];
      }
      const double expected = a == b && a < rows ? 1 : 0;
      ASSERT_NEAR(dot, expected, 1e-5) << "columns " << a << " and " << b;
    }
  }
}

// The share of each column's energy that the first `rank` columns of `basis` do not hold.
void ExpectSpans(const Floats& basis, const Floats& p, int64_t rows, int rank) {
  for (int c = 0; c < rank; ++c) {
    std::vector<double> left(static_cast<size_t>(rows));
    double energy = 0, rest = 0;
    for (int64_t row = 0; row < rows; ++row) left[row] = p[row * rank + c];
    for (double v : left) energy += v * v;
    for (int k = 0; k < rank; ++k) {
      double dot = 0;
      for (int64_t row = 0; row < rows; ++row) dot += left[row] * basis[row * rank + k];
      for (int64_t row = 0; row < rows; ++row) left[row] -= dot * basis[row * rank + k];
    }
    for (double v : left) rest += v * v;
    ASSERT_LE(std::sqrt(rest), 1e-5 * std::sqrt(energy)) << "column " << c;
  }
}

struct ColumnsCase {
  int64_t rows;
  int rank;
};
const ColumnsCase kColumns[] = {{1, 1},  {2, 2},  {4, 4},    {16, 3},
                                {63, 8}, {65, 2}, {200, 32}, {5000, 4}};

TEST_P(OrthonormalizeTest, OrthonormalizesAndKeepsTheSpan) {
  for (const auto& [rows, rank] : kColumns) {
    for (float magnitude : {1.0f, 1e30f, 1e-30f, 3e37f, 1e-43f}) {
      SCOPED_TRACE(Text({rows, 0, rank}) + ", magnitude " + std::to_string(std::log10(magnitude)));
      Floats p = Gaussians(rows * rank, &random_);
      for (float& v : p) v *= magnitude;
      const Floats basis = Orthonormal(p, rows, rank);
      ExpectOrthonormal(basis, rows, rank);
      // A subnormal column may have lost what makes it differ from another.
      if (magnitude > 1e-38f) ExpectSpans(basis, p, rows, rank);
      ASSERT_FALSE(HasFailure());
    }
  }
}

TEST_P(OrthonormalizeTest, KeepsTheDirectionOfTheFirstColumn) {
  const Floats p = {3, 1, -4, 1};
  const Floats basis = Orthonormal(p, 2, 2);
  EXPECT_FLOAT_EQ(basis[0], 0.6f);
  EXPECT_FLOAT_EQ(basis[2], -0.8f);
  EXPECT_FLOAT_EQ(basis[1], 0.8f);
  EXPECT_FLOAT_EQ(basis[3], 0.6f);
}

// Columns that depend on others up to a share `noise` of them: what one pass leaves is not
// orthogonal.
TEST_P(OrthonormalizeTest, OrthonormalizesColumnsThatNearlyDepend) {
  for (float noise : {1e-2f, 1e-4f, 1e-5f, 1e-6f, 1e-7f, 0.0f}) {
    SCOPED_TRACE(noise);
    const int64_t rows = 300;
    const int rank = 6;
    Floats p = Gaussians(rows * rank, &random_);
    for (int64_t row = 0; row < rows; ++row) {
      for (int c = 1; c < rank; ++c) p[row * rank + c] = p[row * rank] + noise * p[row * rank + c];
    }
    ExpectOrthonormal(Orthonormal(p, rows, rank), rows, rank);
  }
}

TEST_P(OrthonormalizeTest, ReplacesZeroColumns) {
  for (const auto& [rows, rank] : kColumns) {
    SCOPED_TRACE(Text({rows, 0, rank}));
    ExpectOrthonormal(Orthonormal(Floats(static_cast<size_t>(rows * rank)), rows, rank), rows,
                      rank);
    Floats p = Gaussians(rows * rank, &random_);
    for (int64_t row = 0; row < rows; ++row) p[row * rank + rank / 2] = -0.0f;
    ExpectOrthonormal(Orthonormal(p, rows, rank), rows, rank);
  }
}

TEST_P(OrthonormalizeTest, MixesMagnitudes) {
  const int64_t rows = 100;
  const int rank = 4;
  Floats p = Gaussians(rows * rank, &random_);
  const float magnitudes[] = {1e30f, 1e-30f, 1e-43f, 1.0f};
  for (int64_t i = 0; i < rows * rank; ++i) p[i] *= magnitudes[i % rank];
  ExpectOrthonormal(Orthonormal(p, rows, rank), rows, rank);
}

TEST_P(OrthonormalizeTest, MakesColumnsBeyondTheRowsZero) {
  for (const Floats& p : {Gaussians(3 * 8, &random_), Floats(3 * 8)}) {
    const Floats basis = Orthonormal(p, 3, 8);
    ExpectOrthonormal(basis, 3, 8);
    for (int64_t row = 0; row < 3; ++row) {
      for (int c = 3; c < 8; ++c) EXPECT_EQ(basis[row * 8 + c], 0);
    }
  }
}

TEST_P(OrthonormalizeTest, ReplacementsAreSharedByRanksAndDifferBySeedTensorAndStep) {
  const Floats zeros(40);
  const Floats basis = Orthonormal(zeros, 20, 2);
  Dither dither = kDither;
  dither.rank = 3;
  dither.purpose = DitherPurpose::kOwner;
  dither.first_elem = 64;
  EXPECT_EQ(Orthonormal(zeros, 20, 2, dither), basis);
  for (auto change : {+[](Dither* d) { ++d->seed; }, +[](Dither* d) { ++d->tensor; },
                      +[](Dither* d) { ++d->step; }}) {
    Dither other = kDither;
    change(&other);
    EXPECT_NE(Orthonormal(zeros, 20, 2, other), basis);
  }
}

// The start of a tensor, and replacements among columns that have something: none is another one,
// nor a part of it moved, as from counters that overlap.
TEST_P(OrthonormalizeTest, DrawsNoColumnTwice) {
  constexpr int64_t kRows = 4096;
  constexpr int kRank = 8;
  Floats some = Gaussians(kRows * kRank, &random_);
  for (int64_t i = 0; i < kRows * kRank; ++i) some[i] *= i % kRank % 3 == 0 ? 1.0f : 0.0f;
  for (const Floats& p : {Floats(kRows * kRank), some}) {
    const Floats basis = Orthonormal(p, kRows, kRank);
    ExpectOrthonormal(basis, kRows, kRank);
    for (int64_t shift = 1; shift <= 64; ++shift) {
      for (int a = 0; a < kRank; ++a) {
        for (int b = 0; b < kRank; ++b) {
          double dot = 0;
          for (int64_t row = shift; row < kRows; ++row)
            dot += double{basis[row * kRank + a]} * basis[(row - shift) * kRank + b];
          // Of independent columns 1 / sqrt(rows) is the deviation.
          ASSERT_LE(std::fabs(dot), 8 / std::sqrt(double{kRows}))
              << a << ", " << b << ", " << shift;
        }
      }
    }
  }
}

TEST_P(OrthonormalizeTest, MakesAllNanWhereAnElementIsNotFinite) {
  for (float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
    Floats p = Gaussians(30 * 3, &random_);
    p[50] = bad;
    for (float v : Orthonormal(p, 30, 3)) {
      EXPECT_EQ(std::bit_cast<uint32_t>(v), 0x7FC00000u);
    }
  }
}

// --- a whole step -------------------------------------------------------------------------------

// M = A B of rank `true_rank`, times magnitude.
Floats MatrixOfRank(const Shape& s, int true_rank, float magnitude, RandomStream* random) {
  const Floats a = Gaussians(s.rows * true_rank, random);
  const Floats b = Gaussians(s.cols * true_rank, random);
  Floats m(static_cast<size_t>(s.rows * s.cols));
  for (int64_t i = 0; i < s.rows * s.cols; ++i) {
    double sum = 0;
    for (int k = 0; k < true_rank; ++k) {
      sum += static_cast<double>(a[i / s.cols * true_rank + k]) * b[i % s.cols * true_rank + k];
    }
    m[i] = static_cast<float>(sum * magnitude);
  }
  return m;
}

struct Step {
  Floats p, error, out;
};

// Twice from a random Q: products with random columns alone may be nearly dependent.
Step RunSteps(const Shape& s, const Floats& matrix, RandomStream* random) {
  const Guarded grad(matrix), q(Gaussians(s.cols * s.rank, random)), workspace = Workspace(s);
  const Guarded p(4 * s.rows * s.rank);
  const Guarded error(4 * s.rows * s.cols), out(4 * s.rows * s.cols);
  const LowRankMatrix m = {.rows = s.rows, .cols = s.cols, .grad = grad.bytes()};
  for (int step = 0; step < 2; ++step) {
    Orthonormalize(s.cols, s.rank, kDither, workspace.view(), q.floats());
    MultiplyByQ(m, q.floats(), s.rank, workspace.view(), {.factor = p.floats()});
    Orthonormalize(s.rows, s.rank, kDither, workspace.view(), p.floats());
    MultiplyByP(m, p.floats(), s.rank, workspace.view(), {.factor = q.floats()});
  }
  const LowRankProduct product = {s.rank, p.floats(), q.floats()};
  SubtractProduct(m, product, workspace.view(), error.floats());
  StoreProduct(product, workspace.view(), {s.rows, s.cols, out.bytes()});
  return {p.Copy(), error.Copy(), out.Copy()};
}

TEST_P(OrthonormalizeTest, FindsMatricesOfNoHigherRank) {
  struct {
    Shape shape;
    int true_rank;
  } const cases[] = {{{50, 70, 4}, 4}, {{50, 70, 8}, 2}, {{120, 1, 1}, 1},
                     {{1, 90, 1}, 1},  {{33, 20, 5}, 0}, {{3, 40, 8}, 3}};
  for (const auto& [shape, true_rank] : cases) {
    for (float magnitude : {1.0f, 1e30f, 1e-30f}) {
      SCOPED_TRACE(Text(shape) + ", true rank " + std::to_string(true_rank));
      const Floats m = MatrixOfRank(shape, true_rank, magnitude, &random_);
      const Step step = RunSteps(shape, m, &random_);
      ExpectOrthonormal(step.p, shape.rows, shape.rank);
      for (size_t i = 0; i < m.size(); ++i) {
        ASSERT_NEAR(step.out[i], m[i], 1e-4 * magnitude) << i;
        ASSERT_NEAR(step.error[i], 0, 1e-4 * magnitude) << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, OrthonormalizeTest,
                         testing::ValuesIn(SupportedTargets().begin(), SupportedTargets().end()),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace gradwire
