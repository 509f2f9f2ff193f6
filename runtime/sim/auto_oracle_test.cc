// A few questions to the oracle; ./run soak --oracles 300 asks many.
#include "runtime/sim/auto_oracle.h"

#include <gtest/gtest.h>

#include "tests/lib/sanitized.h"

namespace gradwire {
namespace {

constexpr uint64_t kSeeds = kSanitized ? 1 : 6;

TEST(AutoOracle, AutoIsNearTheBestPlanAndNeverMuchSlowerThanNone) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const OracleRow row = AskOracle(seed);
    SCOPED_TRACE(row.Text() + " " + row.decisions);
    EXPECT_LE(row.last_regret, 0.05);
    EXPECT_LE(row.none_regret, 0.02);
    EXPECT_FALSE(row.misses_baseline);
  }
}

}  // namespace
}  // namespace gradwire
