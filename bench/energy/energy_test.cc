// What top-k by agreement is for: with one and the same number of elements, to find more of the
// mean gradient than one rank's choice where ranks do not agree, and about as much where they do.
#include "bench/energy/energy.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

TEST(Energy, SpeakersFindMoreThanALeader) {
  struct Law {
    double correlation, least_ratio;
  };
  // Measured over many steps: 1.8, 1.1 and 0.98.
  for (const Law& law : {Law{0, 1.6}, Law{0.3, 1.02}, Law{0.7, 0.92}}) {
    const auto found = FindEnergy(
        "topk(density=0.01)", {.correlation = law.correlation, .settling_steps = 6, .steps = 16});
    ASSERT_TRUE(found.ok()) << found.status().ToString();
    EXPECT_GT(found->method, law.least_ratio * found->leader) << "correlation " << law.correlation;
    EXPECT_LT(found->method, found->best) << "correlation " << law.correlation;
    EXPECT_NEAR(found->values, 200, 20) << "correlation " << law.correlation;
  }
}

TEST(Energy, IsRefusedForWhatIsNoSparseCarrier) {
  EXPECT_FALSE(FindEnergy("bf16", {}).ok());
  EXPECT_FALSE(FindEnergy("topk(agreement=votes)", {}).ok());
}

}  // namespace
}  // namespace gradwire
