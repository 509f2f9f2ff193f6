#include "compress/kernels/index_list/index_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "base/rng.h"
#include "tests/lib/guarded_buffer.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

using Indices = std::vector<uint32_t>;
using List = std::vector<uint8_t>;

List Encode(const Indices& indices, int64_t universe) {
  const GuardedBuffer out(IndexListBytes(universe, static_cast<int64_t>(indices.size())));
  EncodeIndexList(indices, universe, out.data());
  EXPECT_TRUE(out.intact());
  List list(static_cast<size_t>(out.size()));
  if (!list.empty()) std::memcpy(list.data(), out.data(), list.size());
  return list;
}

// Into exactly `count` places.
Status Decode(const List& list, int64_t universe, size_t count, Indices* indices) {
  const GuardedBuffer in(static_cast<int64_t>(list.size()));
  const GuardedBuffer out(static_cast<int64_t>(4 * count));
  if (!list.empty()) std::memcpy(in.data(), list.data(), list.size());
  auto* first = reinterpret_cast<uint32_t*>(out.data());
  const Status status = DecodeIndexList({in.data(), in.size()}, universe, {first, count});
  EXPECT_TRUE(out.intact());
  indices->assign(first, first + count);
  return status;
}

void CheckRoundTrip(const Indices& indices, int64_t universe) {
  Indices decoded;
  const Status status = Decode(Encode(indices, universe), universe, indices.size(), &decoded);
  ASSERT_TRUE(status.ok()) << status.ToString();
  ASSERT_EQ(decoded, indices) << "universe " << universe;
}

void ExpectCorrupt(const List& list, int64_t universe, size_t count) {
  Indices decoded;
  EXPECT_EQ(Decode(list, universe, count, &decoded).code(), gwDataCorrupt);
}

// `count` of `universe`, any with equal chance.
Indices Sample(int64_t universe, int64_t count, RandomStream* random) {
  Indices sample;
  for (int64_t i = 0; i < universe; ++i) {
    const int64_t missing = count - static_cast<int64_t>(sample.size());
    if (static_cast<int64_t>(random->Below(static_cast<uint64_t>(universe - i))) < missing) {
      sample.push_back(static_cast<uint32_t>(i));
    }
  }
  return sample;
}

class IndexListTest : public testing::Test {
 protected:
  RandomStream random_{TestSeed(), 0};
  testing::ScopedTrace trace_{__FILE__, __LINE__, TestSeedText()};
};

TEST_F(IndexListTest, HasTheBytesOfTheWireFormatPage) {
  EXPECT_EQ(Encode({3, 4, 7, 13, 14, 40}, 48),
            (List{0xe3, 0x6b, 0, 0, 0, 0, 0, 0, 0x37, 0x04, 0, 0, 0, 0, 0, 0}));
}

TEST_F(IndexListTest, ReturnsWhatItWasGiven) {
  for (int64_t universe : {1, 2, 63, 64, 65, 127, 128, 129, 1000, 4096, 10007}) {
    for (double density : {0.0, 0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.99, 1.0}) {
      const auto count = static_cast<int64_t>(std::ceil(density * static_cast<double>(universe)));
      CheckRoundTrip(Sample(universe, count, &random_), universe);
    }
  }
}

// Fields that fill words to the last bit, and one index on either side of that.
TEST_F(IndexListTest, ReturnsListsAtTheBordersOfWords) {
  for (int64_t count : {0, 1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129}) {
    for (int width = 0; width <= 7; ++width) {
      for (int64_t more : {0, 1}) {
        const int64_t universe = (count << width) + more;
        CheckRoundTrip(Sample(universe, count, &random_), universe);
      }
    }
  }
}

TEST_F(IndexListTest, ReturnsTheFirstAndTheLastOfAUniverse) {
  for (int64_t universe : {int64_t{7}, int64_t{1} << 20, kIndexListMaxUniverse}) {
    const auto last = static_cast<uint32_t>(universe - 1);
    for (const Indices& indices : {Indices{0}, Indices{last}, Indices{0, last}, Indices{0, 1, 2, 3},
                                   Indices{last - 2, last - 1, last}}) {
      CheckRoundTrip(indices, universe);
    }
  }
}

TEST_F(IndexListTest, SizesAreClosedForm) {
  EXPECT_EQ(IndexListBytes(0, 0), 0);
  EXPECT_EQ(IndexListBytes(1000, 0), 0);
  EXPECT_EQ(IndexListBytes(1, 1), 8);
  EXPECT_EQ(IndexListBytes(64, 64), 16);
  EXPECT_EQ(IndexListBytes(6400, 64), 48 + 24);
  EXPECT_EQ(IndexListBytes(kIndexListMaxUniverse, 1), 8 + 8);
  const int64_t universe = 16 << 20, count = universe / 100;
  const double bits = 8.0 * static_cast<double>(IndexListBytes(universe, count));
  EXPECT_NEAR(bits / static_cast<double>(count), 8.5625, 0.01);
}

TEST_F(IndexListTest, RefusesAWrongSize) {
  List list = Encode({3, 4, 7, 13, 14, 40}, 48);
  list.pop_back();
  ExpectCorrupt(list, 48, 6);
  list.resize(24);
  ExpectCorrupt(list, 48, 6);
  ExpectCorrupt({}, 48, 6);
  ExpectCorrupt(List(8), 48, 0);
}

TEST_F(IndexListTest, RefusesADuplicateAndADescent) {
  // 8 of 64 have three low bits each; the first two share their high bits.
  List list = Encode({0, 1, 20, 30, 40, 50, 60, 63}, 64);
  list[0] &= ~0x08u;  // 1 becomes 0
  ExpectCorrupt(list, 64, 8);
  list[0] |= 0x01;  // 0 becomes 1, before a 0
  ExpectCorrupt(list, 64, 8);
}

TEST_F(IndexListTest, RefusesAnIndexOutOfRange) {
  // 10 of 100 have three low bits each: those of 96 and more leave room for 103.
  List list = Encode({0, 1, 2, 3, 4, 5, 6, 7, 8, 99}, 100);
  list[3] |= 0x38;  // the low bits of 99: it becomes 103
  ExpectCorrupt(list, 100, 10);
}

TEST_F(IndexListTest, RefusesAWrongNumberOfIndices) {
  const List good = Encode({3, 4, 7, 13, 14, 40}, 48);  // 11 bits from bit 64 on
  for (size_t bit = 64; bit < 64 + 11; ++bit) {
    List list = good;
    list[bit / 8] ^= 1u << (bit % 8);
    ExpectCorrupt(list, 48, 6);
  }
}

TEST_F(IndexListTest, RefusesBitsBehindTheEndOfEitherString) {
  const List good = Encode({3, 4, 7, 13, 14, 40}, 48);  // 18 and 11 bits
  for (size_t bit = 0; bit < 128; ++bit) {
    const bool padding = (bit >= 18 && bit < 64) || bit >= 64 + 11;
    if (!padding) continue;
    List list = good;
    list[bit / 8] ^= 1u << (bit % 8);
    ExpectCorrupt(list, 48, 6);
  }
}

// What is accepted is a list: ascending, in range, and the only form of it.
TEST_F(IndexListTest, AcceptsOnlyWhatItWouldWrite) {
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    const auto universe = static_cast<int64_t>(1 + random_.Below(200));
    const auto count = static_cast<int64_t>(random_.Below(static_cast<uint64_t>(universe + 1)));
    List list = Encode(Sample(universe, count, &random_), universe);
    if (list.empty()) continue;
    for (uint64_t flips = random_.Below(4); flips > 0; --flips) {
      list[random_.Below(list.size())] ^= 1u << random_.Below(8);
    }
    Indices decoded;
    if (!Decode(list, universe, static_cast<size_t>(count), &decoded).ok()) continue;
    ++accepted;
    ASSERT_LT(decoded.back(), universe);
    ASSERT_TRUE(std::is_sorted(decoded.begin(), decoded.end(), std::less_equal<>()));
    ASSERT_EQ(Encode(decoded, universe), list);
  }
  EXPECT_GT(accepted, 2000);
}

}  // namespace
}  // namespace gradwire
