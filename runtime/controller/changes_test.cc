#include "runtime/controller/changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gradwire {
namespace {

using testing::HasSubstr;

// Of one tensor, which has three rungs.
const Plan kNone = {0}, kBf16 = {1}, kHeavier = {2};

JobFacts Job() {
  return {.candidates = {{.spec = "none"}, {.spec = "bf16"}, {.spec = "efsign"}},
          .tensors = {{.name = "w", .ladder = {{0, 4}, {1, 2}, {2, 1}}}}};
}

std::string TextOf(const Decision& decision, const Plan& before) {
  Changes changes;
  changes.Add(Job(), 1, decision, before);
  return changes.Json();
}

TEST(Changes, TellWhatATrialCompares) {
  const std::string text = TextOf({.a = kBf16, .b = kHeavier}, kBf16);
  EXPECT_THAT(text, HasSubstr("\"change\": \"on trial: w bf16 -> efsign\""));
}

// A comparison may begin with another plan than the one that ran.
TEST(Changes, TellWhatATrialBeginsWith) {
  const std::string text = TextOf({.a = kBf16, .b = kHeavier}, kNone);
  EXPECT_THAT(text, HasSubstr("\"w none -> bf16; on trial: w bf16 -> efsign\""));
}

TEST(Changes, TellThatNothingChanges) {
  EXPECT_THAT(TextOf({.a = kBf16, .b = kBf16}, kBf16), HasSubstr("\"change\": \"no change\""));
}

}  // namespace
}  // namespace gradwire
