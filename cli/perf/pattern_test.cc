#include "cli/perf/pattern.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace gradwire {
namespace {

std::vector<Pattern> ExactOfAllRanks(DType dtype, ReduceOp op, int ranks) {
  std::vector<Pattern> patterns;
  for (int r = 0; r < ranks; ++r) patterns.push_back(ExactPattern(dtype, op, r, ranks));
  return patterns;
}

double InType(DType dtype, double value) {
  std::byte bytes[8];
  const View view = {bytes, 1, dtype};
  FillWith({{value}}, 0, view);
  return ReadElement(view, 0);
}

double Combined(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg: return a + b;
    case ReduceOp::kProd: return a * b;
    case ReduceOp::kMax: return std::max(a, b);
    case ReduceOp::kMin: return std::min(a, b);
  }
  return 0;
}

// Element i of what the type itself gives, one rank after the other in the order given.
double Folded(DType dtype, ReduceOp op, std::span<const Pattern> in_order, int64_t i) {
  double value = in_order[0].at(i);
  for (const Pattern& next : in_order.subspan(1))
    value = InType(dtype, Combined(op, value, next.at(i)));
  return value;
}

int64_t CountInexact(DType dtype, ReduceOp op, const Pattern& reduced,
                     std::span<const Pattern> in_order) {
  int64_t inexact = 0;
  for (int64_t i = 0; i < std::ssize(reduced.tile); ++i) {
    const double value = Folded(dtype, op, in_order, i);
    inexact += value != reduced.at(i) || InType(dtype, value) != value ? 1 : 0;
  }
  return inexact;
}

// Elements that tell a result from the same one that many elements away.
int64_t CountShifted(const Pattern& pattern, int64_t by, DType dtype) {
  std::vector<std::byte> bytes(pattern.tile.size() * 8);
  const View view = {bytes.data(), std::ssize(pattern.tile), dtype};
  FillWith(pattern, by, view);
  return CountDifferent(pattern, 0, view);
}

// Large worlds in small types only: the others have room for many more.
template <class Check>
void ForAllCases(const Check& check) {
  for (int t = 0; t < kDTypes; ++t) {
    const auto dtype = static_cast<DType>(t);
    for (int o = 0; o < kReduceOps; ++o) {
      for (const int ranks : {1, 2, 3, 4, 7, 16, 128, 200}) {
        if (ranks < 100 || SizeOf(dtype) <= 2) check(dtype, static_cast<ReduceOp>(o), ranks);
      }
    }
  }
}

TEST(ExactPattern, ReductionsAreExactInEveryTypeAndOrder) {
  ForAllCases([](DType dtype, ReduceOp op, int ranks) {
    std::vector<Pattern> patterns = ExactOfAllRanks(dtype, op, ranks);
    const Pattern reduced = Reduced(patterns, op);
    EXPECT_EQ(CountInexact(dtype, op, reduced, patterns), 0) << Name(dtype) << Name(op) << ranks;
    std::reverse(patterns.begin(), patterns.end());
    EXPECT_EQ(CountInexact(dtype, op, reduced, patterns), 0) << Name(dtype) << Name(op) << ranks;
  });
}

TEST(ExactPattern, MisplacedResultIsSeenInEveryTypeAndOperation) {
  ForAllCases([](DType dtype, ReduceOp op, int ranks) {
    // 0 is the only whole average that these can hold.
    if (op == ReduceOp::kAvg && dtype == DType::kInt8 && ranks > 127) return;
    const Pattern reduced = Reduced(ExactOfAllRanks(dtype, op, ranks), op);
    for (const int64_t by : {1, 8, 64, 1000}) {
      EXPECT_GT(CountShifted(reduced, by, dtype), std::ssize(reduced.tile) / 3)
          << Name(dtype) << Name(op) << ranks << " by " << by;
    }
  });
}

TEST(ExactPattern, EveryRankCounts) {
  ForAllCases([](DType dtype, ReduceOp op, int ranks) {
    // Ranks come in pairs in an average.
    if (op == ReduceOp::kAvg || ranks < 4) return;
    std::vector<Pattern> patterns = ExactOfAllRanks(dtype, op, ranks);
    const Pattern reduced = Reduced(patterns, op);
    for (const int left_out : {0, ranks / 2, ranks - 1}) {
      std::vector<Pattern> others = patterns;
      others.erase(others.begin() + left_out);
      EXPECT_NE(Reduced(others, op).tile, reduced.tile) << Name(dtype) << Name(op) << left_out;
    }
  });
}

TEST(MovedPattern, MisplacedPieceIsSeenInEveryType) {
  for (int t = 0; t < kDTypes; ++t) {
    const auto dtype = static_cast<DType>(t);
    const Pattern pattern = MovedPattern(dtype, 150);
    EXPECT_EQ(CountShifted(pattern, 0, dtype), 0) << Name(dtype);
    for (const int64_t by : {1, 8, 64, 1000})
      EXPECT_GT(CountShifted(pattern, by, dtype), 1000) << Name(dtype) << " by " << by;
    EXPECT_NE(MovedPattern(dtype, 151).tile, pattern.tile) << Name(dtype);
  }
}

TEST(ExactPattern, RanksDiffer) {
  for (int o = 0; o < kReduceOps; ++o) {
    const auto patterns = ExactOfAllRanks(DType::kFloat32, static_cast<ReduceOp>(o), 4);
    EXPECT_NE(patterns[0].tile, patterns[1].tile) << Name(static_cast<ReduceOp>(o));
  }
}

TEST(NormalPattern, HasMeanZeroAndVarianceOne) {
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
    const Pattern pattern = NormalPattern(dtype, 3);
    double sum = 0, squares = 0;
    for (const double value : pattern.tile) sum += value, squares += value * value;
    const auto count = static_cast<double>(pattern.tile.size());
    EXPECT_LT(std::abs(sum / count), 5 / std::sqrt(count)) << Name(dtype);
    EXPECT_NEAR(squares / count, 1, 0.05) << Name(dtype);
  }
  EXPECT_NE(NormalPattern(DType::kFloat32, 0).tile, NormalPattern(DType::kFloat32, 1).tile);
}

TEST(FillWith, RepeatsFromAnyElement) {
  const Pattern pattern = ExactPattern(DType::kInt32, ReduceOp::kSum, 1, 4);
  for (const int64_t elems : {0, 1, 1020, 1021, 1022, 5000}) {
    for (const int64_t first : {0, 1, 1020, 1021, 100'000}) {
      std::vector<int32_t> data(static_cast<size_t>(elems));
      const View view = {reinterpret_cast<std::byte*>(data.data()), elems, DType::kInt32};
      FillWith(pattern, first, view);
      for (int64_t i = 0; i < elems; ++i) {
        ASSERT_EQ(data[static_cast<size_t>(i)], pattern.at(first + i)) << elems << " " << i;
      }
      EXPECT_EQ(CountDifferent(pattern, first, view), 0);
    }
  }
}

TEST(CountDifferent, FindsEveryWrongElement) {
  const Pattern pattern = NormalPattern(DType::kFloat32, 0);
  std::vector<float> data(100'000);
  const View view = FloatView(data.data(), static_cast<int64_t>(data.size()));
  FillWith(pattern, 0, view);
  data[5] += 1;
  data[70'000] = std::numeric_limits<float>::quiet_NaN();
  data[99'999] += 0.25f;
  EXPECT_EQ(CountDifferent(pattern, 0, view), 3);
}

}  // namespace
}  // namespace gradwire
