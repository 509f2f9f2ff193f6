#include "cli/netlab/later_rates.h"

#include <gtest/gtest.h>

#include "base/clock.h"

namespace gradwire {
namespace {

TEST(ParseLaterRates, OrdersThemByTime) {
  const auto rates = ParseLaterRates(std::vector<std::string>{"20=1gbit", "0.5=100mbit"});
  ASSERT_TRUE(rates.ok());
  ASSERT_EQ(rates->size(), 2u);
  EXPECT_EQ((*rates)[0].at_ns, kNsPerSecond / 2);
  EXPECT_EQ((*rates)[0].text, "100mbit");
  EXPECT_EQ((*rates)[1].bits_per_s, 1'000'000'000);
}

TEST(ParseLaterRates, RefusesOtherTexts) {
  for (const char* text : {"", "1", "fast", "1=", "1=fast", "=1gbit", "-1=1gbit", "nan=1gbit",
                           "1s=1gbit", "1 =1gbit"}) {
    const auto rates = ParseLaterRates(std::vector<std::string>{"1=1gbit", text});
    EXPECT_EQ(rates.status().code(), gwInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace gradwire
