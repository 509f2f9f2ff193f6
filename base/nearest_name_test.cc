#include "base/nearest_name.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace gradwire {
namespace {

const std::vector<std::string_view> kCodecs = {"none", "bf16",     "qsgd",
                                               "topk", "powersgd", "signsgd"};

TEST(NearestName, FindsCommonSlips) {
  EXPECT_EQ(NearestName("qsdg", kCodecs), "qsgd") << "swapped";
  EXPECT_EQ(NearestName("topkk", kCodecs), "topk") << "one more";
  EXPECT_EQ(NearestName("powrsgd", kCodecs), "powersgd") << "one less";
  EXPECT_EQ(NearestName("bf15", kCodecs), "bf16") << "another";
  EXPECT_EQ(NearestName("QSGD", kCodecs), "qsgd") << "case";
  EXPECT_EQ(NearestName("none", kCodecs), "none");
}

TEST(NearestName, KnowsAbbreviations) {
  const std::vector<std::string_view> names = {"help", "op", "collective"};
  EXPECT_EQ(NearestName("coll", names), "collective");
  EXPECT_EQ(NearestName("COLL", names), "collective");
  EXPECT_EQ(NearestName("op", names), "op");
}

TEST(NearestName, SwapCountsOnce) {
  const std::vector<std::string_view> names = {"abXY", "abdc"};
  EXPECT_EQ(NearestName("abcd", names), "abdc");
}

TEST(NearestName, EqualsGoToTheFirst) {
  const std::vector<std::string_view> names = {"aab", "aac"};
  EXPECT_EQ(NearestName("aad", names), "aab");
}

TEST(NearestName, OddInput) {
  EXPECT_EQ(NearestName("x", {}), "");
  EXPECT_EQ(NearestName("", kCodecs), "none");
  EXPECT_EQ(NearestName(std::string(1 << 20, 'z'), kCodecs), "none") << "only the start counts";
}

TEST(DidYouMean, AsksForTheNearest) {
  EXPECT_EQ(DidYouMean("qsdg", kCodecs), "Did you mean 'qsgd'?");
  EXPECT_EQ(DidYouMean("qsdg", {}), "");
}

}  // namespace
}  // namespace gradwire
