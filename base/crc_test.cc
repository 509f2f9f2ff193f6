#include "base/crc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "base/crc_internal.h"
#include "base/rng.h"

namespace gradwire {
namespace {

using Buffer = std::vector<uint8_t>;

// One bit at a time: shares nothing with the implementations but the polynomial.
uint32_t BitwiseCrc(const uint8_t* data, int64_t bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (int64_t i = 0; i < bytes; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
  }
  return ~crc;
}

Buffer RandomBytes(int64_t bytes, uint64_t seed) {
  RandomStream random(seed);
  Buffer buffer(static_cast<size_t>(bytes));
  for (uint8_t& byte : buffer) byte = static_cast<uint8_t>(random());
  return buffer;
}

// RFC 3720, appendix B.4, and the check value of the CRC catalogues.
TEST(Crc32c, PublishedVectors) {
  Buffer ascending(32), descending(32);
  std::iota(ascending.begin(), ascending.end(), uint8_t{0});
  std::copy(ascending.rbegin(), ascending.rend(), descending.begin());
  EXPECT_EQ(Crc32c(Buffer(32, 0x00).data(), 32), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(Buffer(32, 0xFF).data(), 32), 0x62A8AB43u);
  EXPECT_EQ(Crc32c(ascending.data(), 32), 0x46DD794Eu);
  EXPECT_EQ(Crc32c(descending.data(), 32), 0x113FDB5Cu);
  EXPECT_EQ(Crc32c("123456789", 9), 0xE3069283u);
}

TEST(Crc32c, EmptyInputKeepsTheSeed) {
  EXPECT_EQ(Crc32c(nullptr, 0), 0u);
  EXPECT_EQ(Crc32c(nullptr, 0, 0x12345678), 0x12345678u);
}

struct Implementation {
  const char* name;
  uint32_t (*function)(const void*, int64_t, uint32_t);
  bool available;
};

class EachCrc : public testing::TestWithParam<Implementation> {
 protected:
  void SetUp() override {
    if (!GetParam().available) GTEST_SKIP() << "not on this processor";
  }
  uint32_t Crc(const uint8_t* data, int64_t bytes, uint32_t seed = 0) {
    return GetParam().function(data, bytes, seed);
  }
};

INSTANTIATE_TEST_SUITE_P(, EachCrc,
                         testing::Values(Implementation{"portable", crc_internal::Portable, true},
                                         Implementation{"hardware", crc_internal::Hardware,
                                                        crc_internal::HasHardware()},
                                         Implementation{"dispatched", Crc32c, true}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(EachCrc, AgreesWithBitwiseAtEverySmallSizeAndAlignment) {
  const Buffer data = RandomBytes(1200, 31);
  for (int64_t offset = 0; offset < 9; ++offset) {
    for (int64_t bytes = 0; bytes <= 1100; bytes += bytes < 420 ? 1 : 37) {
      ASSERT_EQ(Crc(data.data() + offset, bytes), BitwiseCrc(data.data() + offset, bytes))
          << bytes << " bytes at offset " << offset;
    }
  }
}

// Around the borders of the long lanes, where the combination changes.
TEST_P(EachCrc, AgreesWithBitwiseAroundLaneBorders) {
  const Buffer data = RandomBytes(20000, 32);
  for (const int64_t border : {384, 768, 6144, 6144 + 384, 12288, 18432}) {
    for (int64_t bytes = border - 9; bytes <= border + 9; ++bytes) {
      ASSERT_EQ(Crc(data.data() + 3, bytes), BitwiseCrc(data.data() + 3, bytes)) << bytes;
    }
  }
}

TEST_P(EachCrc, AgreesWithBitwiseOnRandomRanges) {
  constexpr uint64_t kSeed = 33;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  RandomStream random(kSeed);
  const Buffer data = RandomBytes(1 << 17, kSeed);
  for (int i = 0; i < 60; ++i) {
    const auto offset = static_cast<int64_t>(random.Below(64));
    const auto bytes = static_cast<int64_t>(random.Below(data.size() - 64));
    ASSERT_EQ(Crc(data.data() + offset, bytes), BitwiseCrc(data.data() + offset, bytes))
        << bytes << " bytes at offset " << offset;
  }
}

TEST_P(EachCrc, ContinuesFromASeed) {
  constexpr uint64_t kSeed = 34;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  RandomStream random(kSeed);
  const Buffer data = RandomBytes(20000, kSeed);
  const uint32_t whole = BitwiseCrc(data.data(), 20000);
  for (int i = 0; i < 50; ++i) {
    const auto cut = static_cast<int64_t>(random.Below(20001));
    const uint32_t head = Crc(data.data(), cut);
    ASSERT_EQ(Crc(data.data() + cut, 20000 - cut, head), whole) << "cut at " << cut;
  }
}

TEST_P(EachCrc, SeesEverySingleBit) {
  Buffer data = RandomBytes(700, 35);
  const uint32_t clean = Crc(data.data(), 700);
  for (int bit = 0; bit < 700 * 8; ++bit) {
    data[bit / 8] ^= 1 << (bit % 8);
    ASSERT_NE(Crc(data.data(), 700), clean) << "bit " << bit;
    data[bit / 8] ^= 1 << (bit % 8);
  }
}

}  // namespace
}  // namespace gradwire
