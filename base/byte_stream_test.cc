#include "base/byte_stream.h"

#include <gtest/gtest.h>

#include <string>

namespace gradwire {
namespace {

std::string Sample() {
  ByteWriter out;
  out.Put(uint16_t{7}, -1.5);
  out.PutText("text");
  out.PutText("");
  return std::move(out).Take();
}

TEST(ByteStream, GivesBackWhatWasPut) {
  const std::string bytes = Sample();
  EXPECT_EQ(bytes.size(), 2u + 8 + 8 + 4 + 8);
  ByteReader in(bytes);
  uint16_t number = 0;
  double real = 0;
  in.Get(&number, &real);
  EXPECT_EQ(number, 7);
  EXPECT_EQ(real, -1.5);
  EXPECT_EQ(in.GetText(), "text");
  EXPECT_FALSE(in.at_end());
  EXPECT_EQ(in.GetText(), "");
  EXPECT_TRUE(in.at_end());
  EXPECT_TRUE(in.ok());
}

TEST(ByteStream, LengthsMayBeNarrow) {
  ByteWriter out;
  out.PutText<uint16_t>("text");
  out.PutText<uint32_t>("");
  EXPECT_EQ(out.bytes(), std::string("\4\0text\0\0\0\0", 10));
  ByteReader in(out.bytes());
  EXPECT_EQ(in.GetText<uint16_t>(), "text");
  EXPECT_EQ(in.GetText<uint32_t>(), "");
  EXPECT_TRUE(in.ok() && in.at_end());
}

TEST(ByteStream, ReadsZerosBehindTheEnd) {
  const std::string bytes = Sample();
  for (size_t size = 0; size < bytes.size(); ++size) {
    ByteReader in(std::string_view(bytes).substr(0, size));
    (void)in.Get<uint16_t>();
    (void)in.Get<double>();
    (void)in.GetText();
    (void)in.GetText();
    EXPECT_FALSE(in.ok()) << size;
    EXPECT_EQ(in.Get<uint8_t>(), 0) << "bytes may be left, but they are in the wrong place";
  }
}

TEST(ByteStream, ALengthBeyondTheEndIsNotBelieved) {
  ByteWriter out;
  out.Put(UINT64_MAX, uint64_t{0});
  ByteReader in(out.bytes());
  EXPECT_TRUE(in.GetBytes().empty());
  EXPECT_FALSE(in.ok());
}

}  // namespace
}  // namespace gradwire
