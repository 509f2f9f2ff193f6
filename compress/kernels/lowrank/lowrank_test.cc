#include "compress/kernels/lowrank/lowrank.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/float16.h"
#include "base/rng.h"
#include "compress/kernels/dispatch.h"
#include "tests/lib/guarded_buffer.h"
#include "tests/lib/sanitized.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

using Floats = std::vector<float>;

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};

// Relative errors of one rounding.
constexpr double kUnitFloat32 = 0x1p-24;
constexpr double kUnitFloat16 = 0x1p-11;
constexpr double kUnitBfloat16 = 0x1p-8;
// What rounding to a subnormal may add, in fp16; in the others less.
constexpr double kTiny = 0x1p-25;

// An array whose ends no kernel may cross.
class Guarded {
 public:
  explicit Guarded(int64_t bytes) : buffer_(bytes) {}
  explicit Guarded(const Floats& values) : Guarded(static_cast<int64_t>(4 * values.size())) {
    std::memcpy(buffer_.data(), values.data(), 4 * values.size());
  }
  ~Guarded() { EXPECT_TRUE(buffer_.intact()); }

  std::byte* bytes() const { return buffer_.data(); }
  float* floats() const { return reinterpret_cast<float*>(buffer_.data()); }
  Bytes view() const { return {buffer_.data(), buffer_.size()}; }
  Floats Copy() const { return Floats(floats(), floats() + buffer_.size() / 4); }

 private:
  GuardedBuffer buffer_;
};

uint16_t Narrow(float v, DType dtype) {
  return dtype == DType::kFloat16 ? Fp16FromFloat(v) : Bf16FromFloat(v);
}

float Widen(uint16_t bits, DType dtype) {
  return dtype == DType::kFloat16 ? FloatFromFp16(bits) : FloatFromBf16(bits);
}

float LoadElement(const std::byte* from, DType dtype, int64_t i) {
  if (dtype == DType::kFloat32) return reinterpret_cast<const float*>(from)[i];
  return Widen(reinterpret_cast<const uint16_t*>(from)[i], dtype);
}

void StoreElement(float v, DType dtype, int64_t i, std::byte* to) {
  if (dtype == DType::kFloat32) {
    reinterpret_cast<float*>(to)[i] = v;
  } else {
    reinterpret_cast<uint16_t*>(to)[i] = Narrow(v, dtype);
  }
}

float Gaussian(RandomStream* random) {
  return static_cast<float>(std::sqrt(-2 * std::log(1 - random->Unit())) *
                            std::cos(2 * M_PI * random->Unit()));
}

Floats Gaussians(int64_t count, RandomStream* random) {
  Floats values(static_cast<size_t>(count));
  for (float& v : values) v = Gaussian(random);
  return values;
}

struct Shape {
  int64_t rows, cols;
  int rank;
};

std::string Text(const Shape& s) {
  return std::to_string(s.rows) + " x " + std::to_string(s.cols) + ", rank " +
         std::to_string(s.rank);
}

// Odd tails around vectors, blocks of rows and tiles.
const Shape kShapes[] = {{1, 1, 1},   {1, 200, 3},  {200, 1, 1},   {15, 17, 2},   {16, 16, 4},
                         {17, 63, 5}, {33, 65, 8},  {40, 255, 4},  {31, 256, 32}, {64, 257, 7},
                         {3, 513, 3}, {130, 96, 6}, {48, 1024, 4}, {5, 2000, 31}};

// Inputs of all functions for one shape.
struct Case {
  Shape shape;
  DType dtype;
  bool has_residual;
  Guarded grad, e_in, p, q;
  float in_scale = 0.375f;

  Case(const Shape& s, DType type, bool residual, RandomStream* random)
      : shape(s),
        dtype(type),
        has_residual(residual),
        grad(s.rows * s.cols * SizeOf(type)),
        e_in(Gaussians(s.rows * s.cols, random)),
        p(Gaussians(s.rows * s.rank, random)),
        q(Gaussians(s.cols * s.rank, random)) {
    for (int64_t i = 0; i < elems(); ++i) StoreElement(Gaussian(random), type, i, grad.bytes());
  }

  int64_t elems() const { return shape.rows * shape.cols; }
  LowRankMatrix matrix() const {
    return {.rows = shape.rows,
            .cols = shape.cols,
            .grad = grad.bytes(),
            .dtype = dtype,
            .in_scale = in_scale,
            .e_in = has_residual ? e_in.floats() : nullptr};
  }
  LowRankProduct product() const { return {.rank = shape.rank, .p = p.floats(), .q = q.floats()}; }
  float M(int64_t row, int64_t col) const {
    const int64_t i = row * shape.cols + col;
    const float scaled = LoadElement(grad.bytes(), dtype, i) * in_scale;
    return has_residual ? scaled + e_in.floats()[i] : scaled;
  }
  float P(int64_t row, int c) const { return p.floats()[row * shape.rank + c]; }
  float Q(int64_t col, int c) const { return q.floats()[col * shape.rank + c]; }
};

// A sum of products in float64, and the sum of magnitudes that bounds its rounding in float32.
struct Sum {
  double value = 0, magnitude = 0;

  void Add(double a, double b) {
    value += a * b;
    magnitude += std::fabs(a * b);
  }
};

Sum ProductAt(const Case& in, int64_t row, int64_t col) {
  Sum sum;
  for (int c = 0; c < in.shape.rank; ++c) sum.Add(in.P(row, c), in.Q(col, c));
  return sum;
}

Guarded Workspace(const Shape& s) { return Guarded(LowRankWorkspaceBytes(s.rows, s.cols, s.rank)); }

class LowRankTest : public testing::TestWithParam<SimdTarget> {
 protected:
  LowRankTest() : random_(TestSeed(), 0) { ForceTargetForTest(Name(GetParam())); }
  ~LowRankTest() override { ForceTargetForTest(""); }

  // Calls check with a case of each shape, type and with and without residual.
  template <class Check>
  void ForAllCases(Check check) {
    for (const Shape& shape : kShapes) {
      for (DType dtype : kTypes) {
        for (bool residual : {false, true}) {
          SCOPED_TRACE(Text(shape) + ", " + std::string(Name(dtype)));
          check(Case(shape, dtype, residual, &random_));
          ASSERT_FALSE(HasFailure());
        }
      }
    }
  }

  RandomStream random_;
  testing::ScopedTrace trace_{__FILE__, __LINE__, TestSeedText()};
};

// One rounding for the product, one for each addition an element goes through.
TEST_P(LowRankTest, MultipliesByQ) {
  ForAllCases([](const Case& in) {
    const Shape& s = in.shape;
    const Guarded p(4 * s.rows * s.rank), m(4 * in.elems()), workspace = Workspace(s);
    MultiplyByQ(in.matrix(), in.q.floats(), s.rank, workspace.view(),
                {.factor = p.floats(), .m_out = m.floats()});
    const double unit = static_cast<double>(s.cols / 16 + 6) * kUnitFloat32;
    for (int64_t row = 0; row < s.rows; ++row) {
      for (int c = 0; c < s.rank; ++c) {
        Sum sum;
        for (int64_t col = 0; col < s.cols; ++col) sum.Add(in.M(row, col), in.Q(col, c));
        ASSERT_NEAR(p.floats()[row * s.rank + c], sum.value, unit * sum.magnitude) << row;
      }
      for (int64_t col = 0; col < s.cols; ++col) {
        ASSERT_EQ(m.floats()[row * s.cols + col], in.M(row, col)) << row << ", " << col;
      }
    }
  });
}

TEST_P(LowRankTest, MultipliesByP) {
  ForAllCases([](const Case& in) {
    const Shape& s = in.shape;
    const Guarded q(4 * s.cols * s.rank), m(4 * in.elems()), workspace = Workspace(s);
    MultiplyByP(in.matrix(), in.p.floats(), s.rank, workspace.view(),
                {.factor = q.floats(), .m_out = m.floats()});
    const double unit = static_cast<double>(4 + s.rows / 4 + 2) * kUnitFloat32;
    for (int64_t col = 0; col < s.cols; ++col) {
      for (int c = 0; c < s.rank; ++c) {
        Sum sum;
        for (int64_t row = 0; row < s.rows; ++row) sum.Add(in.M(row, col), in.P(row, c));
        ASSERT_NEAR(q.floats()[col * s.rank + c], sum.value, unit * sum.magnitude) << col;
      }
      for (int64_t row = 0; row < s.rows; ++row) {
        ASSERT_EQ(m.floats()[row * s.cols + col], in.M(row, col)) << row << ", " << col;
      }
    }
  });
}

TEST_P(LowRankTest, SubtractsTheProduct) {
  ForAllCases([](const Case& in) {
    const Shape& s = in.shape;
    const Guarded e_out(4 * in.elems()), workspace = Workspace(s);
    SubtractProduct(in.matrix(), in.product(), workspace.view(), e_out.floats());
    for (int64_t i = 0; i < in.elems(); ++i) {
      const Sum sum = ProductAt(in, i / s.cols, i % s.cols);
      const double expected = in.M(i / s.cols, i % s.cols) - sum.value;
      const double error = kUnitFloat32 * ((s.rank + 2) * sum.magnitude + std::fabs(expected));
      ASSERT_NEAR(e_out.floats()[i], expected, error) << i;
    }
  });
}

TEST_P(LowRankTest, StoresTheProductInEveryType) {
  const float scale = 0.25f;
  ForAllCases([&](const Case& in) {
    const Shape& s = in.shape;
    const double unit = in.dtype == DType::kFloat32   ? kUnitFloat32
                        : in.dtype == DType::kFloat16 ? kUnitFloat16
                                                      : kUnitBfloat16;
    const Guarded out(in.elems() * SizeOf(in.dtype)), workspace = Workspace(s);
    StoreProduct(in.product(), workspace.view(), {s.rows, s.cols, out.bytes(), in.dtype, scale});
    for (int64_t i = 0; i < in.elems(); ++i) {
      const Sum sum = ProductAt(in, i / s.cols, i % s.cols);
      const double inexact = kUnitFloat32 * (s.rank + 2) * sum.magnitude * scale;
      const double rounding = unit * (std::fabs(sum.value) * scale + inexact) + kTiny;
      ASSERT_NEAR(LoadElement(out.bytes(), in.dtype, i), sum.value * scale, inexact + rounding);
    }
  });
}

// A stored matrix is the matrix, also where it took the residual's place.
TEST_P(LowRankTest, WorksInPlace) {
  ForAllCases([](const Case& in) {
    if (!in.has_residual) return;
    const Shape& s = in.shape;
    const Guarded p(4 * s.rows * s.rank), q(4 * s.cols * s.rank), e_out(4 * in.elems());
    const Guarded workspace = Workspace(s);
    SubtractProduct(in.matrix(), in.product(), workspace.view(), e_out.floats());

    const Guarded residual(in.e_in.Copy());
    LowRankMatrix m = in.matrix();
    m.e_in = residual.floats();
    SubtractProduct(m, in.product(), workspace.view(), residual.floats());
    EXPECT_EQ(residual.Copy(), e_out.Copy());

    const LowRankMatrix stored = {.rows = s.rows, .cols = s.cols, .grad = residual.bytes()};
    for (bool by_q : {true, false}) {
      std::memcpy(residual.bytes(), in.e_in.bytes(), static_cast<size_t>(4 * in.elems()));
      if (by_q) {
        MultiplyByQ(m, in.q.floats(), s.rank, workspace.view(),
                    {.factor = p.floats(), .m_out = residual.floats()});
      } else {
        MultiplyByP(m, in.p.floats(), s.rank, workspace.view(),
                    {.factor = q.floats(), .m_out = residual.floats()});
      }
      SubtractProduct(stored, in.product(), workspace.view(), residual.floats());
      EXPECT_EQ(residual.Copy(), e_out.Copy());
    }
  });
}

// --- orthonormal columns ------------------------------------------------------------------------

constexpr Dither kDither = {.seed = 7, .tensor = 0x123456789ABCDEFull, .step = 11};

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

TEST_P(LowRankTest, OrthonormalizesAndKeepsTheSpan) {
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

TEST_P(LowRankTest, KeepsTheDirectionOfTheFirstColumn) {
  const Floats p = {3, 1, -4, 1};
  const Floats basis = Orthonormal(p, 2, 2);
  EXPECT_FLOAT_EQ(basis[0], 0.6f);
  EXPECT_FLOAT_EQ(basis[2], -0.8f);
  EXPECT_FLOAT_EQ(basis[1], 0.8f);
  EXPECT_FLOAT_EQ(basis[3], 0.6f);
}

// Columns that depend on others up to a share `noise` of them: what one pass leaves is not
// orthogonal.
TEST_P(LowRankTest, OrthonormalizesColumnsThatNearlyDepend) {
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

TEST_P(LowRankTest, ReplacesZeroColumns) {
  for (const auto& [rows, rank] : kColumns) {
    SCOPED_TRACE(Text({rows, 0, rank}));
    ExpectOrthonormal(Orthonormal(Floats(static_cast<size_t>(rows * rank)), rows, rank), rows,
                      rank);
    Floats p = Gaussians(rows * rank, &random_);
    for (int64_t row = 0; row < rows; ++row) p[row * rank + rank / 2] = -0.0f;
    ExpectOrthonormal(Orthonormal(p, rows, rank), rows, rank);
  }
}

TEST_P(LowRankTest, MixesMagnitudes) {
  const int64_t rows = 100;
  const int rank = 4;
  Floats p = Gaussians(rows * rank, &random_);
  const float magnitudes[] = {1e30f, 1e-30f, 1e-43f, 1.0f};
  for (int64_t i = 0; i < rows * rank; ++i) p[i] *= magnitudes[i % rank];
  ExpectOrthonormal(Orthonormal(p, rows, rank), rows, rank);
}

TEST_P(LowRankTest, MakesColumnsBeyondTheRowsZero) {
  for (const Floats& p : {Gaussians(3 * 8, &random_), Floats(3 * 8)}) {
    const Floats basis = Orthonormal(p, 3, 8);
    ExpectOrthonormal(basis, 3, 8);
    for (int64_t row = 0; row < 3; ++row) {
      for (int c = 3; c < 8; ++c) EXPECT_EQ(basis[row * 8 + c], 0);
    }
  }
}

TEST_P(LowRankTest, ReplacementsAreSharedByRanksAndDifferBySeedTensorAndStep) {
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

TEST_P(LowRankTest, MakesAllNanWhereAnElementIsNotFinite) {
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

TEST_P(LowRankTest, FindsMatricesOfNoHigherRank) {
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

INSTANTIATE_TEST_SUITE_P(All, LowRankTest,
                         testing::ValuesIn(SupportedTargets().begin(), SupportedTargets().end()),
                         [](const auto& info) { return std::string(Name(info.param)); });

// --- the same bits ------------------------------------------------------------------------------

// A factor, whether M is counted and kept by the way or not.
void ExpectSame(const Guarded& a, const Guarded& b) {
  EXPECT_EQ(std::memcmp(a.bytes(), b.bytes(), static_cast<size_t>(a.view().size)), 0);
}

// All outputs of all functions, one after the other.
std::vector<std::byte> RunAll(const Case& in) {
  const Shape& s = in.shape;
  const Guarded p(4 * s.rows * s.rank), q(4 * s.cols * s.rank), m(4 * in.elems());
  const Guarded e_out(4 * in.elems()), out(in.elems() * SizeOf(in.dtype));
  const Guarded basis(in.p.Copy()), workspace = Workspace(s);
  MultiplyByQ(in.matrix(), in.q.floats(), s.rank, workspace.view(),
              {.factor = p.floats(), .m_out = m.floats()});
  MultiplyByP(in.matrix(), in.p.floats(), s.rank, workspace.view(), {.factor = q.floats()});
  EncodeStats stats;
  const Guarded p_again(p.view().size), q_again(q.view().size);
  MultiplyByQ(in.matrix(), in.q.floats(), s.rank, workspace.view(),
              {.factor = p_again.floats(), .stats = &stats});
  ExpectSame(p_again, p);
  MultiplyByP(in.matrix(), in.p.floats(), s.rank, workspace.view(),
              {.factor = q_again.floats(), .m_out = m.floats(), .stats = &stats});
  ExpectSame(q_again, q);
  SubtractProduct(in.matrix(), in.product(), workspace.view(), e_out.floats());
  StoreProduct(in.product(), workspace.view(), {s.rows, s.cols, out.bytes(), in.dtype, 0.7f});
  Orthonormalize(s.rows, s.rank, kDither, workspace.view(), basis.floats());
  // Bits of a NaN are unspecified in m_out.
  for (int64_t i = 0; i < in.elems(); ++i) {
    if (std::isnan(m.floats()[i])) m.floats()[i] = 0;
  }
  std::vector<std::byte> all;
  for (const Guarded* result : {&p, &m, &q, &e_out, &out, &basis}) {
    const Bytes view = result->view();
    all.insert(all.end(), view.data, view.data + view.size);
  }
  return all;
}

// Makes a few elements special, or all of a column of P.
void Disturb(const Case& in, RandomStream* random) {
  const float specials[] = {0.0f, -0.0f, 1e30f, -1e30f, 1e-30f, 1e-42f, NAN, INFINITY, -INFINITY};
  const auto special = [&] { return specials[random->Below(std::size(specials))]; };
  const auto any = [&](int64_t count) {
    return static_cast<int64_t>(random->Below(static_cast<uint64_t>(count)));
  };
  switch (random->Below(8)) {
    case 0: StoreElement(special(), in.dtype, any(in.elems()), in.grad.bytes()); break;
    case 1: in.e_in.floats()[any(in.elems())] = special(); break;
    case 2: in.p.floats()[any(in.shape.rows * in.shape.rank)] = special(); break;
    case 3: in.q.floats()[any(in.shape.cols * in.shape.rank)] = special(); break;
    case 4: {
      const int64_t c = any(in.shape.rank);
      for (int64_t row = 0; row < in.shape.rows; ++row) {
        in.p.floats()[row * in.shape.rank + c] = 0;
      }
      break;
    }
    default: break;
  }
}

void ExpectSameBitsOnAllTargets(const Case& in) {
  ForceTargetForTest(Name(SimdTarget::kScalar));
  const std::vector<std::byte> expected = RunAll(in);
  for (SimdTarget target : SupportedTargets()) {
    ForceTargetForTest(Name(target));
    EXPECT_TRUE(RunAll(in) == expected) << Name(target);
  }
  ForceTargetForTest("");
}

TEST(LowRankBitsTest, AreTheSameOnAllTargetsForRandomShapes) {
  SCOPED_TRACE(TestSeedText());
  RandomStream random(TestSeed(), 1);
  constexpr int kShapes = kSanitized ? 200 : 1000;
  for (int i = 0; i < kShapes && !testing::Test::HasFailure(); ++i) {
    const Shape shape = {1 + static_cast<int64_t>(random.Below(200)),
                         1 + static_cast<int64_t>(random.Below(200)),
                         1 + static_cast<int>(random.Below(8))};
    const Case in(shape, kTypes[random.Below(3)], random.Below(2) == 0, &random);
    Disturb(in, &random);
    SCOPED_TRACE("shape " + std::to_string(i) + ": " + Text(shape));
    ExpectSameBitsOnAllTargets(in);
  }
}

// Large enough for stores past the cache; the second one's rows are not aligned for them.
TEST(LowRankBitsTest, AreTheSameOnAllTargetsForLargeMatrices) {
  SCOPED_TRACE(TestSeedText());
  RandomStream random(TestSeed(), 2);
  for (const Shape& shape : {Shape{1024, 1024, 3}, Shape{700, 1501, 2}}) {
    SCOPED_TRACE(Text(shape));
    ExpectSameBitsOnAllTargets(Case(shape, DType::kFloat32, true, &random));
  }
}

}  // namespace
}  // namespace gradwire
