#include "cli/measure/near_square.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

using Shape = std::array<int64_t, 2>;

TEST(NearSquare, HasAllElementsAndTheMostRowsThatFit) {
  EXPECT_EQ(NearSquare(36), Shape({6, 6}));
  EXPECT_EQ(NearSquare(12), Shape({3, 4}));
  EXPECT_EQ(NearSquare(7), Shape({1, 7}));
  EXPECT_EQ(NearSquare(1), Shape({1, 1}));
  EXPECT_EQ(NearSquare(0), Shape({0, 0}));
}

}  // namespace
}  // namespace gradwire
