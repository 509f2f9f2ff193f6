#include "tests/conformance/capi_wrong_call.h"

#include <gtest/gtest.h>

#include <cctype>
#include <string>
#include <string_view>

#include "tests/lib/capi_ranks.h"

namespace gradwire {
namespace {

// Errors name what was called, by a name that its caller knows: the function or the operation, both
// in lower case, and not one of the library's own functions.
void ExpectNamesTheCall(const std::string& errors) {
  constexpr std::string_view kMark = "; operation ";
  size_t names = 0;
  for (size_t at = errors.find(kMark); at != errors.npos; at = errors.find(kMark, at + 1)) {
    const std::string_view name = std::string_view(errors).substr(at + kMark.size());
    EXPECT_TRUE(std::islower(static_cast<unsigned char>(name[0]))) << errors;
    EXPECT_FALSE(name.starts_with("operator")) << errors;
    ++names;
  }
  // Of the thread's error and the communicator's.
  EXPECT_EQ(names, 2u) << errors;
}

}  // namespace

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
      ExpectNamesTheCall(scene.errors());
      EXPECT_TRUE(scene.untouched());
      EXPECT_EQ(SavedState(scene.comm), before);
      ASSERT_TRUE(AllReduceWorks(scene.rank, kSceneRanks, scene.comm))
          << gwGetLastError(scene.comm);
    }
  });
}

}  // namespace gradwire
