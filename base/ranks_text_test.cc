#include "base/ranks_text.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

TEST(RanksText, RunsAreShort) {
  EXPECT_EQ(RanksText({3}), "rank 3");
  EXPECT_EQ(RanksText({0, 1}), "ranks 0 and 1");
  EXPECT_EQ(RanksText({0, 1, 2}), "ranks 0 to 2");
  EXPECT_EQ(RanksText({0, 2, 3, 4, 5, 9}), "ranks 0, 2 to 5 and 9");
  EXPECT_EQ(RanksText({1, 2, 4}), "ranks 1, 2 and 4");
}

}  // namespace
}  // namespace gradwire
