#include "compress/kernels/dispatch.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

int One() { return 1; }
int Two() { return 2; }
using Kernel = int (*)();
bool Usable(const Kernel& k) { return k != nullptr; }

class DispatchTest : public testing::Test {
 protected:
  ~DispatchTest() override { ForceTargetForTest(""); }
};

TEST_F(DispatchTest, SupportsScalarFirstAndActivatesTheBest) {
  ASSERT_FALSE(SupportedTargets().empty());
  EXPECT_EQ(SupportedTargets().front(), SimdTarget::kScalar);
  EXPECT_EQ(ActiveTarget(), SupportedTargets().back());
}

TEST_F(DispatchTest, ForcesEverySupportedTargetAndRefusesOthers) {
  for (SimdTarget target : SupportedTargets()) {
    ASSERT_TRUE(ForceTargetForTest(Name(target)));
    EXPECT_EQ(ActiveTarget(), target);
  }
  const SimdTarget before = ActiveTarget();
  EXPECT_FALSE(ForceTargetForTest("altivec"));
  EXPECT_EQ(ActiveTarget(), before);
  EXPECT_TRUE(ForceTargetForTest(""));
  EXPECT_EQ(ActiveTarget(), SupportedTargets().back());
}

TEST_F(DispatchTest, FallsBackToTheBestRowBelow) {
  const KernelTable<Kernel> table = {{One, Two, nullptr, nullptr}, Usable};
  ASSERT_TRUE(ForceTargetForTest("scalar"));
  EXPECT_EQ(table.Active()(), 1);
  ASSERT_TRUE(ForceTargetForTest(""));
  EXPECT_EQ(table.Active()(), SupportedTargets().size() > 1 ? 2 : 1);
}

}  // namespace
}  // namespace gradwire
