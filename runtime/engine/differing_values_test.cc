#include "runtime/engine/differing_values.h"

#include <gtest/gtest.h>

#include <string>

namespace gradwire {
namespace {

// "layer.000,layer.001,...", and so many of them.
std::string Names(int first, int count) {
  std::string names;
  for (int i = first; i < first + count; ++i) {
    const std::string number = std::to_string(1000 + i);
    names += (names.empty() ? "layer." : ",layer.") + number.substr(1);
  }
  return names;
}

TEST(FromWhereTheyDiffer, LeavesShortOnesAlone) {
  const auto [expected, actual] = FromWhereTheyDiffer("a,b,c", "a,b,d");
  EXPECT_EQ(expected, "a,b,c");
  EXPECT_EQ(actual, "a,b,d");
}

TEST(FromWhereTheyDiffer, BeginsLongOnesWithTheFirstItemThatDiffers) {
  const std::string common = Names(0, 60);
  const auto [expected, actual] =
      FromWhereTheyDiffer(common + ",layer.100,end", common + ",layer.101,layer.102");
  EXPECT_EQ(expected, "...layer.100,end");
  EXPECT_EQ(actual, "...layer.101,layer.102");
}

TEST(FromWhereTheyDiffer, CutsTheEnd) {
  const auto [expected, actual] = FromWhereTheyDiffer(Names(0, 200), Names(1, 200));
  EXPECT_EQ(expected, Names(0, 20) + ",...");
  EXPECT_EQ(actual, Names(1, 20) + ",...");
}

TEST(FromWhereTheyDiffer, ShowsTheLastItemOfOneThatGoesOn) {
  const std::string common = Names(0, 60);
  const auto [expected, actual] = FromWhereTheyDiffer(common, common + ",more");
  EXPECT_EQ(expected, "...layer.059");
  EXPECT_EQ(actual, "...layer.059,more");
}

TEST(FromWhereTheyDiffer, ShowsSomeOfALongItemAndWholeCharacters) {
  const std::string common(300, 'x');
  const auto [expected, actual] = FromWhereTheyDiffer(common + "1", common + "2");
  EXPECT_EQ(expected, "..." + std::string(100, 'x') + "1");
  EXPECT_EQ(actual, "..." + std::string(100, 'x') + "2");
  std::string umlauts;
  for (int i = 0; i < 150; ++i) umlauts += "ä";
  EXPECT_EQ(FromWhereTheyDiffer(umlauts + "a1", umlauts + "a2").actual,
            "..." + umlauts.substr(0, 98) + "a2");
  EXPECT_EQ(FromWhereTheyDiffer("a" + umlauts, "b").expected, "a" + umlauts.substr(0, 198) + "...");
}

}  // namespace
}  // namespace gradwire
