#include "base/hash.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>

#include "base/rng.h"

namespace gradwire {
namespace {

// Values that other ranks rely on; a change here is a change of the wire format.
TEST(Hash, ValuesAreFixed) {
  EXPECT_EQ(HashString(""), 0x2D06800538D394C2u);
  EXPECT_EQ(HashString("layer1.weight"), 0xCF7DF302A995AEFBu);
  EXPECT_EQ(Hasher().digest(), 0xE220A8397B1DCDAFu);
  EXPECT_EQ(Hasher().Add(1).Add(2).Add("x").digest(), 0xDAF67DEC25197024u);
}

TEST(Hash, BytesAndStringAgree) {
  constexpr uint64_t kSeed = 51;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  RandomStream random(kSeed);
  std::set<uint64_t> seen;
  std::string text;
  for (int bytes = 0; bytes < 600; ++bytes) {
    const ConstBytes view(reinterpret_cast<const std::byte*>(text.data()), bytes);
    ASSERT_EQ(HashBytes(view), HashString(text)) << bytes;
    seen.insert(HashString(text));
    text.push_back(static_cast<char>(random()));
  }
  EXPECT_EQ(seen.size(), 600u);
}

TEST(Hasher, OrderNumberAndBordersMatter) {
  EXPECT_NE(Hasher().Add(1).Add(2).digest(), Hasher().Add(2).Add(1).digest());
  EXPECT_NE(Hasher().digest(), Hasher().Add(0).digest());
  EXPECT_NE(Hasher().Add(0).digest(), Hasher().Add(0).Add(0).digest());
  EXPECT_NE(Hasher().Add("ab").Add("c").digest(), Hasher().Add("a").Add("bc").digest());
  EXPECT_EQ(Hasher().Add(7).Add("q").digest(), Hasher().Add(int64_t{7}).Add("q").digest());
  EXPECT_EQ(Hasher().Add(-1).digest(), Hasher().Add(~uint64_t{0}).digest());
  EXPECT_EQ(Hasher().Add(DType::kUint32).digest(), Hasher().Add(3).digest());
}

TEST(Hasher, DigestDoesNotDisturb) {
  Hasher a, b;
  a.Add(1);
  b.Add(1);
  EXPECT_EQ(a.digest(), a.digest());
  EXPECT_EQ(a.Add(2).digest(), b.Add(2).digest());
}

// Small field values are what signatures are made of; none of them may meet.
TEST(Hasher, SmallTuplesDoNotCollide) {
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 30; ++i) {
    for (uint64_t j = 0; j < 30; ++j) {
      for (uint64_t k = 0; k < 30; ++k) seen.insert(Hasher().Add(i).Add(j).Add(k).digest());
    }
  }
  EXPECT_EQ(seen.size(), 27000u);
}

TEST(Hasher, OneBitChangesHalfOfTheDigest) {
  constexpr uint64_t kSeed = 52;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  RandomStream random(kSeed);
  int64_t flipped = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t value = random();
    const uint64_t other = value ^ (uint64_t{1} << (i % 64));
    flipped += __builtin_popcountll(Hasher().Add(value).digest() ^ Hasher().Add(other).digest());
  }
  EXPECT_NEAR(static_cast<double>(flipped) / 1000, 32, 6 * 4 / 31.6);
}

}  // namespace
}  // namespace gradwire
