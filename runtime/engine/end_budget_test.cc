#include "runtime/engine/end_budget.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

TEST(EndBudget, DividesTheDefaultAsItsTableSays) {
  constexpr EndBudget kBudget{5 * kNsPerSecond};
  EXPECT_EQ(kBudget.patience_ns(), 4 * kNsPerSecond);
  EXPECT_EQ(kBudget.leave_ns(), 5 * kNsPerSecond);
  EXPECT_EQ(kBudget.through_ns(), kNsPerSecond);
  EXPECT_EQ(kBudget.bye_ns(), 4 * kNsPerSecond);
  EXPECT_EQ(kBudget.quiet_ns(), 500 * kNsPerMs);
  const int64_t left_ns = kBudget.all_ns - kBudget.patience_ns() - kBudget.quiet_ns();
  EXPECT_EQ(EndBudget::closing_ns(left_ns), 250 * kNsPerMs);
}

TEST(EndBudget, NobodyWaitsLongerForLeaveOrMemoryBecauseMoreIsAllowed) {
  constexpr EndBudget kBudget{60 * kNsPerSecond};
  EXPECT_EQ(kBudget.patience_ns(), 48 * kNsPerSecond);
  EXPECT_EQ(kBudget.leave_ns(), 5 * kNsPerSecond);
  EXPECT_EQ(kBudget.quiet_ns(), kNsPerSecond);
}

TEST(EndBudget, PartsFitIntoAll) {
  for (int64_t all_ns : {int64_t{1}, kNsPerMs, 7 * kNsPerMs + 3, kNsPerSecond, 60 * kNsPerSecond}) {
    const EndBudget budget{all_ns};
    EXPECT_LE(budget.patience_ns() + budget.quiet_ns(), all_ns) << all_ns;
    EXPECT_EQ(budget.through_ns() + budget.bye_ns(), budget.leave_ns()) << all_ns;
    EXPECT_LE(budget.leave_ns(), all_ns) << all_ns;
  }
}

}  // namespace
}  // namespace gradwire
