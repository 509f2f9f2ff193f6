#include "base/rng.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

namespace gradwire {
namespace {

using Words = std::array<uint32_t, 4>;

// Known answers of Random123's own test suite (kat_vectors, philox4x32 10 rounds).
TEST(Philox, PublishedVectors) {
  EXPECT_EQ(Philox({.key = {0, 0}, .counter = {0, 0, 0, 0}}),
            (Words{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}));
  constexpr uint32_t kOnes = 0xFFFFFFFF;
  EXPECT_EQ(Philox({.key = {kOnes, kOnes}, .counter = {kOnes, kOnes, kOnes, kOnes}}),
            (Words{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}));
  EXPECT_EQ(Philox({.key = {0xA4093822, 0x299F31D0},
                    .counter = {0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}}),
            (Words{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}));
}

constexpr Dither kSample = {.seed = 7,
                            .purpose = DitherPurpose::kOwner,
                            .tensor = 0x1122334455667788,
                            .step = 42,
                            .rank = 5,
                            .first_elem = 0};

TEST(Dither, LayoutIsTheOneOfTheWireFormat) {
  const PhiloxInput in = DitherInput(kSample, 0xFFFFFFFF);
  EXPECT_EQ(in.key, (std::array<uint32_t, 2>{7, 0x55667788}));
  EXPECT_EQ(in.counter, (Words{0xFFFFFFFF, 0x11223344, 42, 0x40000005}));
  Dither shared = kSample;
  shared.purpose = DitherPurpose::kShared;
  shared.rank = 0;
  EXPECT_EQ(DitherInput(shared, 1).counter[3], 0x80000000u);
}

TEST(Dither, HalvesAreTheWordsLowHalfFirst) {
  uint16_t halves[8];
  DitherHalves(kSample, 3, halves);
  const Words words = Philox(DitherInput(kSample, 3));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(halves[2 * i], words[i] & 0xFFFF);
    EXPECT_EQ(halves[2 * i + 1], words[i] >> 16);
  }
}

// Where a view begins must not change an element's bits.
TEST(Dither, BitsBelongToTheTensorGlobalElement) {
  for (int64_t first = 0; first < 19; ++first) {
    Dither view = kSample;
    view.first_elem = first;
    for (int64_t elem = 0; elem < 40; ++elem) {
      ASSERT_EQ(DitherHalf(view, elem), DitherHalf(kSample, first + elem)) << first << " " << elem;
    }
  }
}

TEST(Dither, LargestIndexIsDistinct) {
  uint16_t first[8], last[8];
  DitherHalves(kSample, 0, first);
  DitherHalves(kSample, kDitherMaxElems / kDitherGroupElems - 1, last);
  EXPECT_NE(std::vector<uint16_t>(first, first + 8), std::vector<uint16_t>(last, last + 8));
  EXPECT_EQ(DitherHalf(kSample, kDitherMaxElems - 1), last[7]);
}

TEST(Dither, EveryFieldChangesTheBits) {
  std::vector<Dither> variants(8, kSample);
  variants[1].seed ^= 1;
  variants[2].purpose = DitherPurpose::kWorker;
  variants[3].tensor ^= 1;
  variants[4].tensor ^= uint64_t{1} << 63;
  variants[5].step ^= 1;
  variants[6].rank ^= 1;
  variants[7].purpose = DitherPurpose::kShared;
  std::set<std::vector<uint16_t>> seen;
  for (const Dither& dither : variants) {
    uint16_t halves[8];
    DitherHalves(dither, 0, halves);
    seen.emplace(halves, halves + 8);
  }
  EXPECT_EQ(seen.size(), variants.size());
}

// Mean and variance of 2^20 halves against the uniform law, at 6 standard errors.
TEST(Dither, HalvesAreUniform) {
  constexpr int64_t kGroups = 1 << 17;
  constexpr double kCount = kGroups * 8.0;
  double sum = 0, squares = 0;
  for (int64_t group = 0; group < kGroups; ++group) {
    uint16_t halves[8];
    DitherHalves(kSample, group, halves);
    for (const uint16_t half : halves) {
      const double unit = (half + 0.5) / 65536 - 0.5;
      sum += unit;
      squares += unit * unit;
    }
  }
  EXPECT_NEAR(sum / kCount, 0, 6 * 0.2887 / 1024);
  EXPECT_NEAR(squares / kCount, 1.0 / 12, 6 * 0.0745 / 1024);
}

TEST(RandomStream, RepeatsAndSeparates) {
  RandomStream a(1), same(1), other_stream(1, 1), other_seed(2);
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t value = a();
    EXPECT_EQ(value, same());
    seen.insert({value, other_stream(), other_seed()});
  }
  EXPECT_EQ(seen.size(), 3000u);
}

TEST(RandomStream, UnitAndBelowStayInRange) {
  RandomStream random(3);
  std::vector<int> counts(7);
  for (int i = 0; i < 70000; ++i) {
    const double unit = random.Unit();
    ASSERT_GE(unit, 0.0);
    ASSERT_LT(unit, 1.0);
    const uint64_t below = random.Below(7);
    ASSERT_LT(below, 7u);
    ++counts[below];
  }
  for (const int count : counts) EXPECT_NEAR(count, 10000, 6 * 93);
}

}  // namespace
}  // namespace gradwire
