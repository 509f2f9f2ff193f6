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

TEST(NearestName, IsNoneWhereTooLittleIsInCommon) {
  for (const char* name : {"4bit", "8", "fp32", "zstd", "lossless", "o", "ne"}) {
    EXPECT_EQ(NearestName(name, kCodecs), "") << name;
  }
  const std::vector<std::string_view> switches = {"on", "off"};
  for (const char* name : {"no", "n", "o", "true", "1"}) {
    EXPECT_EQ(NearestName(name, switches), "") << name;
  }
  EXPECT_EQ(NearestName("of", switches), "off");
  EXPECT_EQ(NearestName("onn", switches), "on");
}

TEST(NearestName, TakesThirdsOfTheLongerForSlips) {
  const std::vector<std::string_view> names = {"abcdef"};
  EXPECT_EQ(NearestName("abcdxx", names), "abcdef");
  EXPECT_EQ(NearestName("abcxxx", names), "");
  EXPECT_EQ(NearestName("abcdefghi", names), "abcdef");
  EXPECT_EQ(NearestName("xxcdefg", names), "");
}

TEST(NearestName, KnowsParts) {
  EXPECT_EQ(NearestName("bf16_compress_hook", kCodecs), "bf16");
  EXPECT_EQ(NearestName("SGD", kCodecs), "qsgd") << "the least is left out of it";
  const std::vector<std::string_view> names = {"window", "op_timeout_ms"};
  EXPECT_EQ(NearestName("timeout", names), "op_timeout_ms");
  EXPECT_EQ(NearestName("ms", names), "") << "too short";
}

TEST(NearestName, WhatAllBeginWithIsNotInCommon) {
  const std::vector<std::string_view> options = {"--steps", "--seconds", "--op"};
  EXPECT_EQ(NearestName("--stesp", options), "--steps");
  EXPECT_EQ(NearestName("--sec", options), "--seconds");
  for (const char* name : {"--ab", "--", "-s", "--color"}) {
    EXPECT_EQ(NearestName(name, options), "") << name;
  }
  EXPECT_EQ(NearestName("-steps", options), "--steps") << "does not begin so";
  const std::vector<std::string_view> nested = {"ring", "ring_pipelined"};
  EXPECT_EQ(NearestName("ringg", nested), "ring") << "letters alone are no word";
  EXPECT_EQ(NearestName("ring_pipelind", nested), "ring_pipelined");
}

TEST(NearestName, OddInput) {
  EXPECT_EQ(NearestName("x", {}), "");
  EXPECT_EQ(NearestName("", kCodecs), "");
  EXPECT_EQ(NearestName(std::string(1 << 20, 'z'), kCodecs), "");
  EXPECT_EQ(NearestName("none" + std::string(1 << 20, 'z'), kCodecs), "none")
      << "only the start counts";
}

TEST(DidYouMean, AsksForTheNearest) {
  EXPECT_EQ(DidYouMean("qsdg", kCodecs), "Did you mean 'qsgd'?");
  EXPECT_EQ(DidYouMean("4bit", kCodecs), "");
  EXPECT_EQ(DidYouMean("qsdg", {}), "");
}

TEST(DidYouMean, SaysWhatThereIs) {
  EXPECT_EQ(DidYouMean("qsdg", kCodecs, "There are: ..."), "Did you mean 'qsgd'? There are: ...");
  EXPECT_EQ(DidYouMean("4bit", kCodecs, "There are: ..."), "There are: ...");
}

}  // namespace
}  // namespace gradwire
