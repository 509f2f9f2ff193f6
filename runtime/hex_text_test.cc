#include "runtime/hex_text.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

TEST(HexText, TellsAllBytes) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  EXPECT_EQ(FromHex(ToHex(bytes)), bytes);
  EXPECT_EQ(ToHex("\x01\xaf"), "01af");
  EXPECT_EQ(FromHex(""), "");
  EXPECT_EQ(FromHex("AF"), "\xaf");
}

TEST(HexText, TakesDigitsOnly) {
  for (const char* text : {"1", "0f1", "+1", "-1", " 1", "1 ", "0x", "g0", "0g"})
    EXPECT_EQ(FromHex(text), std::nullopt) << text;
}

}  // namespace
}  // namespace gradwire
