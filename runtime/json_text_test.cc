#include "runtime/json_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gradwire {
namespace {

TEST(JsonText, EscapesWhatJsonDoes) {
  EXPECT_EQ(JsonText(""), R"("")");
  EXPECT_EQ(JsonText("layer1.weight"), R"("layer1.weight")");
  EXPECT_EQ(JsonText("a\"b\\c\n\x1f"), R"("a\"b\\c\u000a\u001f")");
}

TEST(JsonText, KeepsUtf8) {
  for (const char* text : {"\x7f", "\xC3\xA9", "\xE2\x82\xAC", "\xEF\xBF\xBD", "\xF0\x9F\x98\x80",
                           "\xF4\x8F\xBF\xBF", "\xED\x9F\xBF"})
    EXPECT_EQ(JsonText(text), std::string("\"") + text + '"');
}

TEST(JsonText, ReplacesWhatIsNoUtf8) {
  const std::string bad = "\xEF\xBF\xBD";  // U+FFFD
  EXPECT_EQ(JsonText("caf\xE9.w"), "\"caf" + bad + ".w\"");
  EXPECT_EQ(JsonText("\xE2\x82"), '"' + bad + bad + '"') << "cut off";
  EXPECT_EQ(JsonText("\x80"), '"' + bad + '"');
  EXPECT_EQ(JsonText("\xC0\xAF"), '"' + bad + bad + '"') << "longer than it must be";
  EXPECT_EQ(JsonText("\xED\xA0\x80"), '"' + bad + bad + bad + '"') << "half of a pair";
  EXPECT_EQ(JsonText("\xF4\x90\x80\x80"), '"' + bad + bad + bad + bad + '"') << "beyond the last";
  EXPECT_EQ(JsonText("\xFF"), '"' + bad + '"');
}

TEST(JsonList, HasWhatEachItemIs) {
  const auto number = [](int i) { return std::to_string(i); };
  EXPECT_EQ(JsonList(std::vector<int>(), number), "[]");
  EXPECT_EQ(JsonList(std::vector<int>{1, -2}, number), "[1, -2]");
  EXPECT_EQ(JsonList(std::vector<int>{1, -2}, number, ",\n"), "[1,\n-2]");
}

TEST(NumberText, IsNullWhereJsonHasNoNumber) {
  EXPECT_EQ(NumberText(0.25), "0.25");
  EXPECT_EQ(NumberText(INFINITY), "null");
  EXPECT_EQ(NumberText(NAN), "null");
}

TEST(JsonObject, HasItsMembersInOrder) {
  EXPECT_EQ(JsonObject().Text(), "{}");
  const std::string name = "a \"layer\"";
  EXPECT_EQ(JsonObject()
                .Add("rank", 3)
                .Add("bytes", int64_t{-1} << 40)
                .Add("name", name)
                .Add("limit", "lag")
                .Add("feedback", true)
                .Add("relerr", 0.25)
                .AddJson("rows", "[1, 2]")
                .Text(),
            R"({"rank": 3, "bytes": -1099511627776, "name": "a \"layer\"", "limit": "lag", )"
            R"("feedback": true, "relerr": 0.25, "rows": [1, 2]})");
}

TEST(JsonObject, HasNullForWhatIsNotThere) {
  EXPECT_EQ(JsonObject()
                .Add("error", std::optional<double>())
                .Add("bound", std::optional(0.5))
                .Add("distance", double{INFINITY})
                .Text(),
            R"({"error": null, "bound": 0.5, "distance": null})");
}

}  // namespace
}  // namespace gradwire
