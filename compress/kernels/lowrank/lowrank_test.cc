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
#include "tests/lib/lowrank_cases.h"
#include "tests/lib/sanitized.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};

// Relative errors of one rounding.
constexpr double kUnitFloat32 = 0x1p-24;
constexpr double kUnitFloat16 = 0x1p-11;
constexpr double kUnitBfloat16 = 0x1p-8;
// What rounding to a subnormal may add, in fp16; in the others less.
constexpr double kTiny = 0x1p-25;

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

void ExpectSame(const Guarded& a, const Guarded& b) {
  EXPECT_EQ(std::memcmp(a.bytes(), b.bytes(), static_cast<size_t>(a.view().size)), 0);
}

class LowRankTest : public OnEachTarget {
 protected:
  // Calls check with a case of each shape, type and with and without residual.
  template <class Check>
  void ForAllCases(Check check) {
    for (const Shape& shape : kShapes) {
      for (DType dtype : kTypes) {
        for (bool residual : {false, true}) {
          if (kSanitized && random_.Below(4) != 0) continue;
          SCOPED_TRACE(Text(shape) + ", " + std::string(Name(dtype)));
          check(Case(shape, dtype, residual, &random_));
          ASSERT_FALSE(HasFailure());
        }
      }
    }
  }
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

// The same P whether it is subtracted by the way or not, and the same difference.
TEST_P(LowRankTest, MultipliesByQAndSubtractsInOnePass) {
  ForAllCases([](const Case& in) {
    const Shape& s = in.shape;
    const Guarded p(4 * s.rows * s.rank), expected(4 * in.elems()), workspace = Workspace(s);
    MultiplyByQ(in.matrix(), in.q.floats(), s.rank, workspace.view(), {.factor = p.floats()});
    SubtractProduct(in.matrix(), {s.rank, p.floats(), in.q.floats()}, workspace.view(),
                    expected.floats());

    const Guarded residual(in.e_in.Copy()), separate(4 * in.elems());
    LowRankMatrix over_e_in = in.matrix();
    if (in.has_residual) over_e_in.e_in = residual.floats();
    const std::pair<LowRankMatrix, const Guarded*> places[] = {{in.matrix(), &separate},
                                                               {over_e_in, &residual}};
    for (const auto& [m, e_out] : places) {
      const Guarded p_again(p.view().size);
      MultiplyByQAndSubtract(m, in.q.floats(), s.rank, workspace.view(),
                             {.p = p_again.floats(), .e_out = e_out->floats()});
      ExpectSame(p_again, p);
      ExpectSame(*e_out, expected);
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

INSTANTIATE_TEST_SUITE_P(All, LowRankTest,
                         testing::ValuesIn(SupportedTargets().begin(), SupportedTargets().end()),
                         [](const auto& info) { return std::string(Name(info.param)); });

// --- the same bits ------------------------------------------------------------------------------

// All outputs of all functions, one after the other.
std::vector<std::byte> RunAll(const Case& in) {
  const Shape& s = in.shape;
  const Guarded p(4 * s.rows * s.rank), q(4 * s.cols * s.rank), m(4 * in.elems());
  const Guarded e_out(4 * in.elems()), left(4 * in.elems());
  const Guarded out(in.elems() * SizeOf(in.dtype)), basis(in.p.Copy()), workspace = Workspace(s);
  MultiplyByQ(in.matrix(), in.q.floats(), s.rank, workspace.view(),
              {.factor = p.floats(), .m_out = m.floats()});
  MultiplyByP(in.matrix(), in.p.floats(), s.rank, workspace.view(), {.factor = q.floats()});
  EncodeStats stats;
  const Guarded p_again(p.view().size), q_again(q.view().size);
  MultiplyByQAndSubtract(in.matrix(), in.q.floats(), s.rank, workspace.view(),
                         {.p = p_again.floats(), .e_out = left.floats(), .stats = &stats});
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
  for (const Guarded* result : {&p, &m, &q, &left, &e_out, &out, &basis}) {
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
  constexpr int kShapes = kSanitized ? 100 : 1000;
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
