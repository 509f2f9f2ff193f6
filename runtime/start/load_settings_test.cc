#include "runtime/start/load_settings.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/log.h"

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
  for (const char* wrong : {"window", "=7", " =7", "window=7; seed"}) {
    const Status refused = LoadSettings(wrong, {}).status();
    EXPECT_EQ(refused.code(), gwInvalidArgument) << wrong;
    EXPECT_NE(refused.ToString().find("gives no setting a value"), std::string::npos) << wrong;
  }
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

// Where ranks are threads, each loads them.
TEST(LoadSettings, WarnsOfAVariableOnceInAProcess) {
  std::vector<std::string> lines;
  const auto keep = [](void* user, gwLogLevel_t, const char* line) {
    static_cast<std::vector<std::string>*>(user)->emplace_back(line);
  };
  SetLogCallback(keep, &lines);
  for (const char* variable : {"GRADWIRE_WINDWO", "GRADWIRE_WINDWO", "GRADWIRE_SEDE"})
    EXPECT_TRUE(LoadSettings("", {{variable, "1"}}).ok());
  SetLogCallback(nullptr, nullptr);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[0].find("GRADWIRE_WINDWO"), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find("GRADWIRE_SEDE"), std::string::npos) << lines[1];
}

}  // namespace
}  // namespace gradwire
