#include "cli/netlab/rate.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace gradwire {
namespace {

TEST(ParseRate, TakesWhatTcTakes) {
  EXPECT_EQ(*ParseRate("200mbit"), 200'000'000);
  EXPECT_EQ(*ParseRate("1gbit"), 1'000'000'000);
  EXPECT_EQ(*ParseRate("10Gbit"), 10'000'000'000);
  EXPECT_EQ(*ParseRate("2.5gbit"), 2'500'000'000);
  EXPECT_EQ(*ParseRate("64kbit"), 64'000);
  EXPECT_EQ(*ParseRate("1tbit"), 1'000'000'000'000);
}

TEST(ParseRate, RefusesEverythingElse) {
  for (const char* text : {"", "gbit", "1", "1g", "1 gbit", "-1gbit", "0gbit", "1gbits", "1gbyte",
                           "nangbit", "infgbit", "1e3mbit", "2tbit", "63kbit", "1gbit "}) {
    const StatusOr<int64_t> rate = ParseRate(text);
    ASSERT_FALSE(rate.ok()) << text;
    EXPECT_EQ(rate.status().code(), gwInvalidArgument) << text;
  }
}

TEST(ParseLink, HasARateAndMayHaveADelay) {
  const StatusOr<Link> plain = ParseLink("1gbit"), far = ParseLink("200mbit,delay=20ms");
  ASSERT_TRUE(plain.ok() && far.ok());
  EXPECT_EQ(plain->rate_bits_per_s, 1'000'000'000);
  EXPECT_EQ(plain->delay_ns, 0);
  EXPECT_EQ(far->rate_bits_per_s, 200'000'000);
  EXPECT_EQ(far->delay_ns, 20'000'000);
  EXPECT_EQ(ParseLink("1gbit,Delay=500US")->delay_ns, 500'000);
  EXPECT_EQ(ParseLink("1gbit,delay=1s")->delay_ns, 1'000'000'000);
}

TEST(ParseLink, RefusesEverythingElse) {
  for (const char* text :
       {"", ",delay=1ms", "1gbit,", "1gbit,20ms", "1gbit,delay=", "1gbit,delay=5",
        "1gbit,delay=-1ms", "1gbit,delay=1001ms", "1gbit,delay=nanms", "1gbit,delay=1ms,",
        "1gbit delay=1ms", "1gbit,loss=1ms"}) {
    const StatusOr<Link> link = ParseLink(text);
    ASSERT_FALSE(link.ok()) << text;
    EXPECT_EQ(link.status().code(), gwInvalidArgument) << text;
  }
}

TEST(ShapingFor, BurstIsTwoMillisecondsButNeverLessThanAFrame) {
  EXPECT_EQ(ShapingFor(1'000'000'000).burst_bytes, 250'000);
  EXPECT_EQ(ShapingFor(200'000'000).burst_bytes, 50'000);
  EXPECT_EQ(ShapingFor(10'000'000).burst_bytes, 2'500);
  EXPECT_EQ(ShapingFor(1'000'000).burst_bytes, 1'600);
}

TEST(ShapingFor, TheQueueHoldsMoreThanTheBurst) {
  for (int64_t rate = 64'000; rate <= 1'000'000'000'000; rate *= 10) {
    const Shaping shaping = ShapingFor(rate);
    EXPECT_GE(shaping.limit_bytes, 512 << 10) << rate;
    EXPECT_LE(shaping.limit_bytes, std::max<int64_t>(32 << 20, 2 * shaping.burst_bytes)) << rate;
    EXPECT_GT(shaping.limit_bytes, shaping.burst_bytes) << rate;
  }
}

TEST(LongestSegmentAt, FitsIntoTheBurstWithItsHeaders) {
  constexpr int64_t kSegment = 1448, kHeaders = 66;
  for (const int64_t rate : {1'000'000, 100'000'000, 1'000'000'000}) {
    const int64_t payload = LongestSegmentAt(rate);
    const int64_t headers = (payload + kSegment - 1) / kSegment * kHeaders;
    EXPECT_LE(payload + headers, ShapingFor(rate).burst_bytes) << rate;
  }
  EXPECT_EQ(LongestSegmentAt(100'000'000'000), 65536);
}

}  // namespace
}  // namespace gradwire
