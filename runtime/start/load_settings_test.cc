#include "runtime/start/load_settings.h"

#include <gtest/gtest.h>

#include <string>

namespace gradwire {
namespace {

TEST(LoadSettings, TakesPairsAsTheyAreWritten) {
  const StatusOr<Settings> settings =
      LoadSettings(" window = 7 ;; seed=3\nplan_log=a=b c;record_timeline=", {});
  ASSERT_TRUE(settings.ok()) << settings.status().ToString();
  EXPECT_EQ(settings->Int("window"), 7);
  EXPECT_EQ(settings->Int("seed"), 3);
  EXPECT_EQ(settings->Text("plan_log"), "a=b c");
  EXPECT_EQ(settings->Text("record_timeline"), "");
  for (const char* wrong : {"window", "=7", " =7", "window=7; seed"})
    EXPECT_EQ(LoadSettings(wrong, {}).status().code(), gwInvalidArgument) << wrong;
}

// Defaults in front of what a user wrote.
TEST(LoadSettings, TheLastOfAName) {
  const StatusOr<Settings> settings = LoadSettings("window=2; seed=1; window=5", {});
  ASSERT_TRUE(settings.ok()) << settings.status().ToString();
  EXPECT_EQ(settings->Int("window"), 5);
}

TEST(LoadSettings, TheEnvironmentIsWeaker) {
  const Environment environment = {{"GRADWIRE_WINDOW", "3"}, {"GRADWIRE_SEED", "4"}};
  const StatusOr<Settings> settings = LoadSettings("window=2", environment);
  ASSERT_TRUE(settings.ok()) << settings.status().ToString();
  EXPECT_EQ(settings->Int("window"), 2);
  EXPECT_EQ(settings->Int("seed"), 4);
}

TEST(LoadSettings, KnowsCodecsAndAlgorithms) {
  for (const char* wrong :
       {"compress=qsdg", "algorithm=rnig", "algorithm=two_shot", "config=/nowhere/at/all.toml"})
    EXPECT_EQ(LoadSettings(wrong, {}).status().code(), gwInvalidArgument) << wrong;
  EXPECT_TRUE(LoadSettings("compress=qsgd(bits=4); algorithm=ring", {}).ok());
}

}  // namespace
}  // namespace gradwire
