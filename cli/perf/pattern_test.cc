#include "cli/perf/pattern.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace gradwire {
namespace {

std::vector<Pattern> ExactOfAllRanks(DType dtype, ReduceOp op, int ranks) {
  std::vector<Pattern> patterns;
  for (int r = 0; r < ranks; ++r) patterns.push_back(ExactPattern(dtype, op, r, ranks));
  return patterns;
}

// What the type itself gives, one addition after the other: must be the exact result.
TEST(ExactPattern, ReductionsAreExactInEveryTypeAndOrder) {
  for (int t = 0; t < kDTypes; ++t) {
    const auto dtype = static_cast<DType>(t);
    for (int o = 0; o < kReduceOps; ++o) {
      const auto op = static_cast<ReduceOp>(o);
      for (const int ranks : {1, 2, 3, 4, 7, 16}) {
        const Pattern reduced = Reduced(ExactOfAllRanks(dtype, op, ranks), op);
        std::vector<std::byte> bytes(reduced.tile.size() * 8);
        const View view = {bytes.data(), static_cast<int64_t>(reduced.tile.size()), dtype};
        FillWith(reduced, 0, view);
        EXPECT_EQ(CountDifferent(reduced, 0, view, 0), 0) << Name(dtype) << Name(op) << ranks;
      }
    }
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
      EXPECT_EQ(CountDifferent(pattern, first, view, 0), 0);
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
  EXPECT_EQ(CountDifferent(pattern, 0, view, 0), 3);
  EXPECT_EQ(CountDifferent(pattern, 0, view, 0.5), 2);
}

}  // namespace
}  // namespace gradwire
