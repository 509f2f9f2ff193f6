#include "runtime/recorder/recorded_text.h"

#include <gtest/gtest.h>

#include <string>

#include "runtime/recorder/format.h"

namespace gradwire {
namespace {

std::string OfMismatch(const std::string& field, const std::string& expected,
                       const std::string& actual) {
  return RecordedText(
      {.message = "unseen", .field = field, .expected = expected, .actual = actual});
}

TEST(RecordedText, IsTheMessageWhereNoFieldDiffers) {
  const std::string longer(kRecorderTextBytes + 10, 'm');
  EXPECT_EQ(RecordedText({.message = "no memory"}), "no memory");
  EXPECT_EQ(RecordedText({.message = longer}), longer);  // the recorder cuts it
}

TEST(RecordedText, OfAMismatchIsFieldAndValues) {
  EXPECT_EQ(OfMismatch("op", "sum (rank 0)", "max (rank 1)"), "op: sum (rank 0), max (rank 1)");
}

// 52 bytes, of which 4 + 2 are taken.
TEST(RecordedText, LongValuesShareTheRoomAndKeepTheirEnds) {
  const std::string a = "a" + std::string(60, '.') + "A", b = "b" + std::string(60, '.') + "B";
  const std::string text = OfMismatch("op", a, b);
  EXPECT_EQ(text, "op: a..........~..........A, b..........~..........B");
  EXPECT_EQ(text.size(), size_t{kRecorderTextBytes});
}

TEST(RecordedText, AShortValueLeavesItsRoomToTheOther) {
  const std::string longer(60, 'x');
  const std::string kept = std::string(20, 'x') + "~" + std::string(20, 'x');
  EXPECT_EQ(OfMismatch("op", longer, "short"), "op: " + kept + ", short");
  EXPECT_EQ(OfMismatch("op", "short", longer), "op: short, " + kept);
}

TEST(RecordedText, AValueThatFitsExactlyIsWhole) {
  const std::string value(kRecorderTextBytes - std::string("op: , 1").size(), 'x');
  EXPECT_EQ(OfMismatch("op", value, "1"), "op: " + value + ", 1");
  EXPECT_EQ(OfMismatch("op", "1", value), "op: 1, " + value);
}

TEST(RecordedText, ALongFieldLeavesRoomForTheValues) {
  EXPECT_EQ(OfMismatch(std::string(30, 'f') + "end", "1", "2"), "fffffffff~fffffffend: 1, 2");
}

}  // namespace
}  // namespace gradwire
