#include "cli/size_text.h"

#include <gtest/gtest.h>

#include <optional>

namespace gradwire {
namespace {

TEST(ParseSize, CountsInPowersOf1024) {
  EXPECT_EQ(*ParseSize("0"), 0);
  EXPECT_EQ(*ParseSize("1024"), 1024);
  EXPECT_EQ(*ParseSize("8M"), 8 << 20);
  EXPECT_EQ(*ParseSize("64k"), 64 << 10);
  EXPECT_EQ(*ParseSize("1.5G"), int64_t{3} << 29);
  EXPECT_EQ(*ParseSize("2MiB"), 2 << 20);
}

TEST(ParseSize, RefusesOtherTexts) {
  for (const char* text : {"", "M", "-1", "8X", "8MM", "8 M", "nan", "1e3", "9999999T"}) {
    EXPECT_EQ(ParseSize(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace gradwire
