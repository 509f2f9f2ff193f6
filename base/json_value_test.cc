#include "base/json_value.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace gradwire {
namespace {

using Json = JsonValue;

TEST(JsonValue, PrintsEveryType) {
  EXPECT_EQ(Json().dump(), "null");
  EXPECT_EQ(Json(nullptr).dump(), "null");
  EXPECT_EQ(Json(true).dump(), "true");
  EXPECT_EQ(Json(-1).dump(), "-1");
  EXPECT_EQ(Json(std::numeric_limits<int64_t>::min()).dump(), "-9223372036854775808");
  EXPECT_EQ(Json(std::numeric_limits<uint64_t>::max()).dump(), "18446744073709551615");
  EXPECT_EQ(Json(0.1).dump(), "0.1");
  EXPECT_EQ(Json(2.0).dump(), "2.0");
  EXPECT_EQ(Json(std::numeric_limits<double>::infinity()).dump(), "null");
  EXPECT_EQ(Json("a\"b\n").dump(), R"("a\"b\n")");
  EXPECT_EQ(Json(std::string_view("text")).dump(), R"("text")");
}

TEST(JsonValue, ListsOfPairsAreObjects) {
  EXPECT_EQ((Json{{"b", 1}, {"a", {1, 2.5}}}).dump(), R"({"b":1,"a":[1,2.5]})");
  EXPECT_EQ((Json{{"args", {{"name", "x"}}}}).dump(), R"({"args":{"name":"x"}})");
  EXPECT_EQ((Json{1, "a"}).dump(), R"([1,"a"])");
  EXPECT_EQ((Json{{1, "a"}}).dump(), R"([[1,"a"]])");
  EXPECT_EQ((Json{{"k", 1}, {"k", 2}}).dump(), R"({"k":2})");
}

TEST(JsonValue, TakesContainers) {
  EXPECT_EQ(Json(std::vector<int>{}).dump(), "[]");
  EXPECT_EQ(Json(std::vector<std::string>{"a", "b"}).dump(), R"(["a","b"])");
  EXPECT_EQ(Json(std::map<std::string, int>{}).dump(), "{}");
  EXPECT_EQ(Json(std::map<std::string, int>{{"b", 2}, {"a", 1}}).dump(), R"({"a":1,"b":2})");
}

TEST(JsonValue, GrowsInPlace) {
  Json json;
  json["list"].push_back(1);
  json["list"].push_back({{"x", 2}});
  json["none"];
  json["pair"] = {3, 4};
  EXPECT_EQ(json.dump(), R"({"list":[1,{"x":2}],"none":null,"pair":[3,4]})");
  json.update({{"none", false}, {"more", Json::array()}});
  EXPECT_EQ(json.dump(), R"({"list":[1,{"x":2}],"none":false,"pair":[3,4],"more":[]})");
}

TEST(JsonValue, IndentsEveryLevel) {
  EXPECT_EQ((Json{{"a", {1}}, {"b", Json::object()}}).dump(1),
            "{\n \"a\": [\n  1\n ],\n \"b\": {}\n}");
}

TEST(JsonValue, BytesOfNoTextAreReplaced) { EXPECT_EQ(Json("a\xff").dump(), "\"a\xef\xbf\xbd\""); }

}  // namespace
}  // namespace gradwire
