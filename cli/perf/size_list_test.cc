#include "cli/perf/size_list.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace gradwire {
namespace {

TEST(ListSizes, MultipliesOrAdds) {
  const std::vector<int64_t> doubled = {8, 16, 32};
  EXPECT_EQ(*ListSizes({.min_bytes = 8, .max_bytes = 40}), doubled);
  const std::vector<int64_t> added = {8, 18, 28, 38};
  EXPECT_EQ(*ListSizes({.min_bytes = 8, .max_bytes = 40, .step_bytes = 10}), added);
  const std::vector<int64_t> one = {8};
  EXPECT_EQ(*ListSizes({.min_bytes = 8, .max_bytes = 8}), one);
}

TEST(ListSizes, AlwaysEnds) {
  const std::vector<int64_t> from_zero = {0, 1, 2, 4};
  EXPECT_EQ(*ListSizes({.min_bytes = 0, .max_bytes = 4}), from_zero);
  const Status none = ListSizes({.min_bytes = 8, .max_bytes = 4}).status();
  EXPECT_NE(none.ToString().find("-b sets the smallest"), std::string::npos) << none.ToString();
  EXPECT_FALSE(ListSizes({.min_bytes = 8, .max_bytes = 16, .factor = 1}).ok());
}

TEST(ListSizes, HugeFactorsEndAtTheFirstSize) {
  const std::vector<int64_t> one = {8};
  EXPECT_EQ(*ListSizes({.min_bytes = 8, .max_bytes = 1 << 20, .factor = 1e300}), one);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(ListSizes({.min_bytes = 8, .max_bytes = 16, .factor = kInfinity}).ok());
  EXPECT_FALSE(ListSizes({.min_bytes = 8, .max_bytes = 16, .factor = -kInfinity}).ok());
}

TEST(ListSizes, MoreThanAnyRunTakesAreRefusedNotCut) {
  EXPECT_EQ(ListSizes({.min_bytes = 1, .max_bytes = 10'000, .step_bytes = 1})->size(), 10'000u);
  const auto more = ListSizes({.min_bytes = 1, .max_bytes = 10'001, .step_bytes = 1});
  EXPECT_EQ(more.status().code(), gwInvalidArgument);
  EXPECT_NE(more.status().ToString().find("10000 sizes"), std::string::npos);
}

}  // namespace
}  // namespace gradwire
