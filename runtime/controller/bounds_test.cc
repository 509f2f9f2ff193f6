#include "runtime/controller/bounds.h"

#include <gtest/gtest.h>

#include <cmath>

namespace gradwire {
namespace {

TEST(Distance, WithoutFeedbackIsTheErrorOfTheSum) {
  const Candidate candidate = {.spec = "qsgd", .feedback = false};
  // One rank's own error; with many ranks that of the owner's encoding comes on top.
  EXPECT_DOUBLE_EQ(Distance(candidate, 0.01, 1), 0.1);
  EXPECT_DOUBLE_EQ(Distance(candidate, 0.04, 4), 0.2 * std::sqrt(7.0 / 4));
  EXPECT_EQ(Distance(candidate, 0, 4), 0);
}

// A fraction d of what is there is lost in each step, and added to the next gradient: with |g| = 1
// the residual r settles where r^2 = d (1 + r^2).
TEST(Distance, WithFeedbackIsWhereTheResidualSettles) {
  const Candidate candidate = {.spec = "topk", .feedback = true};
  for (const double lost : {0.03, 0.5, 0.9}) {
    double residual = 0;
    for (int step = 0; step < 1000; ++step) residual = lost * (1 + residual);
    EXPECT_NEAR(Distance(candidate, lost, 4), std::sqrt(residual), 1e-9);
  }
  EXPECT_EQ(Distance(candidate, 1, 4), INFINITY);
}

}  // namespace
}  // namespace gradwire
