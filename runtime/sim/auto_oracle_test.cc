// A few questions to the oracle; ./run soak --oracles 300 asks many.
#include "runtime/sim/auto_oracle.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/lib/sanitized.h"

namespace gradwire {
namespace {

class AutoOracle : public testing::TestWithParam<uint64_t> {};

TEST_P(AutoOracle, AutoIsNearTheBestPlanAndNeverMuchSlowerThanNone) {
  const OracleRow row = AskOracle(GetParam());
  SCOPED_TRACE(row.Text() + " " + row.decisions);
  EXPECT_LE(row.last_regret, 0.05);
  EXPECT_LE(row.none_regret, 0.02);
  EXPECT_FALSE(row.misses_baseline);
}

// The world of seed 6 has two ranks only.
INSTANTIATE_TEST_SUITE_P(Seeds, AutoOracle,
                         testing::ValuesIn(kSanitized ? std::vector<uint64_t>{6}
                                                      : std::vector<uint64_t>{1, 2, 3, 4, 5, 6}),
                         [](const auto& info) { return std::to_string(info.param); });

}  // namespace
}  // namespace gradwire
