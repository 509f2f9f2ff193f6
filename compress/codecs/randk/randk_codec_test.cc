#include "compress/codecs/randk/randk_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/rng.h"
#include "tests/lib/sanitized.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

using Indices = std::vector<uint32_t>;

Indices Draw(const Dither& dither, int64_t elems, int64_t k) {
  Indices indices(static_cast<size_t>(k));
  DrawIndices(dither, elems, indices);
  return indices;
}

// Part of the wire format: all ranks must draw the same.
TEST(DrawIndices, StaysAsItIs) {
  const Dither dither = {.seed = 1, .tensor = 2, .step = 3};
  EXPECT_EQ(Draw(dither, 1000, 8), Indices({57, 147, 295, 314, 535, 658, 787, 837}));
}

TEST(DrawIndices, AreDistinctAscendingAndWithinTheTensor) {
  SCOPED_TRACE(TestSeedText());
  RandomStream random(TestSeed());
  for (int trial = 0; trial < 1000; ++trial) {
    const auto elems = static_cast<int64_t>(1 + random.Below(trial % 2 == 0 ? 50 : 0xFFFFFFFF));
    const auto most = static_cast<uint64_t>(std::min<int64_t>(elems, 3000));
    const auto k = static_cast<int64_t>(random.Below(most + 1));
    const Indices indices = Draw({.seed = static_cast<uint32_t>(random())}, elems, k);
    for (size_t j = 0; j < indices.size(); ++j) {
      ASSERT_LT(indices[j], elems);
      ASSERT_TRUE(j == 0 || indices[j - 1] < indices[j]) << k << " of " << elems;
    }
  }
}

TEST(DrawIndices, TakeAllWhereAllAreAskedFor) {
  Indices all;
  for (uint32_t i = 0; i < 999; ++i) all.push_back(i);
  EXPECT_EQ(Draw({.seed = 5}, 999, 999), all);
}

TEST(DrawIndices, DependOnTheStepAndNotOnTheRank) {
  const Indices one = Draw({.seed = 7, .tensor = 9, .step = 1, .rank = 0}, 10000, 100);
  EXPECT_EQ(Draw({.seed = 7, .tensor = 9, .step = 1, .rank = 5}, 10000, 100), one);
  EXPECT_NE(Draw({.seed = 7, .tensor = 9, .step = 2, .rank = 0}, 10000, 100), one);
  EXPECT_NE(Draw({.seed = 7, .tensor = 8, .step = 1, .rank = 0}, 10000, 100), one);
  EXPECT_NE(Draw({.seed = 6, .tensor = 9, .step = 1, .rank = 0}, 10000, 100), one);
}

// Sizes that the number of parts does not divide, among them one part.
TEST(DrawIndices, AreEachEquallyLikely) {
  SCOPED_TRACE(TestSeedText());
  RandomStream random(TestSeed());
  for (const auto& [elems, k] :
       {std::pair<int64_t, int64_t>{997, 1}, {997, 10}, {1000, 300}, {1000, 501}, {1000, 990}}) {
    constexpr int kDraws = kSanitized ? 2'000 : 20'000;
    std::vector<int> counts(static_cast<size_t>(elems));
    Dither dither = {.seed = static_cast<uint32_t>(random()), .tensor = random()};
    for (int draw = 0; draw < kDraws; ++draw) {
      dither.step = static_cast<uint32_t>(draw);
      for (uint32_t index : Draw(dither, elems, k)) ++counts[index];
    }
    const double chance = static_cast<double>(k) / static_cast<double>(elems);
    double chi2 = 0;
    for (int count : counts) {
      const double excess = count - kDraws * chance;
      chi2 += excess * excess / (kDraws * chance * (1 - chance));
    }
    // Neighbours exclude one another, so that the deviation is a little above sqrt(2 elems).
    const auto mean = static_cast<double>(elems);
    EXPECT_NEAR(chi2, mean, 8 * std::sqrt(2 * mean)) << k << " of " << elems;
  }
}

}  // namespace
}  // namespace gradwire
