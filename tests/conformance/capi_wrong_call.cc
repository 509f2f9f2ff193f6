#include "tests/conformance/capi_wrong_call.h"

#include <gtest/gtest.h>

#include "tests/lib/capi_ranks.h"

namespace gradwire {

void CheckWrongCalls(std::span<const WrongCall> calls) {
  RunScene("", [&](Scene& scene) {
    for (const WrongCall& wrong : calls) {
      SCOPED_TRACE(wrong.what);
      const std::string before = SavedState(scene.comm);
      // So that no earlier text passes for this call's.
      EXPECT_EQ(gwCommCount(scene.comm, nullptr), gwInvalidArgument);
      EXPECT_EQ(gwGetVersion(nullptr), gwInvalidArgument);
      EXPECT_EQ(wrong.call(scene), wrong.code) << scene.errors();
      EXPECT_NE(scene.errors().find(wrong.says), std::string::npos) << scene.errors();
      EXPECT_TRUE(scene.untouched());
      EXPECT_EQ(SavedState(scene.comm), before);
      ASSERT_TRUE(AllReduceWorks(scene.rank, kSceneRanks, scene.comm))
          << gwGetLastError(scene.comm);
    }
  });
}

}  // namespace gradwire
