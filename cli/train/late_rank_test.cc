#include "cli/train/late_rank.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

TEST(ParseLateRank, ReadsWhoAndHowMuch) {
  const StatusOr<LateRank> late = ParseLateRank("1:40.5");
  ASSERT_TRUE(late.ok());
  EXPECT_EQ(late->MsIn(1, 0), 40.5);
  EXPECT_EQ(late->MsIn(1, 1'000'000), 40.5);
  EXPECT_EQ(late->MsIn(0, 0), 0);
}

TEST(ParseLateRank, ReadsWhen) {
  const StatusOr<LateRank> late = ParseLateRank("0:40:100:2");
  ASSERT_TRUE(late.ok());
  EXPECT_EQ(late->MsIn(0, 99), 0);
  EXPECT_EQ(late->MsIn(0, 100), 40);
  EXPECT_EQ(late->MsIn(0, 101), 40);
  EXPECT_EQ(late->MsIn(0, 102), 0);
}

TEST(ParseLateRank, RefusesOtherTexts) {
  for (const char* text : {"", "1", "1:", "1:2:", ":2", "-1:2", "1:-2", "1:nan", "1:inf",
                           "1:2:3:4:5", "1:2ms", "1:2:-3", "1 :2"}) {
    EXPECT_EQ(ParseLateRank(text).status().code(), gwInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace gradwire
