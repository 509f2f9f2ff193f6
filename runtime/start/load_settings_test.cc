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

// "setting 'window' = 'many' (from GRADWIRE_WINDOW): ", and then why.
void ExpectRefused(const Status& status, const std::string& beginning, const std::string& why) {
  const std::string& message = status.ToString();
  EXPECT_NE(message.find("setting " + beginning), std::string::npos) << message;
  EXPECT_NE(message.find(why), std::string::npos) << message;
}

TEST(LoadSettings, SaysWhereRefusedValuesAreFrom) {
  const auto refused = [](const std::string& variable, const std::string& text) {
    return LoadSettings("", {{variable, text}}).status();
  };
  ExpectRefused(refused("GRADWIRE_COMPRESS", "qsdg"),
                "'compress' = 'qsdg' (from GRADWIRE_COMPRESS): ", "unknown codec");
  ExpectRefused(refused("GRADWIRE_TRANSPORT", "tcpp"),
                "'transport' = 'tcpp' (from GRADWIRE_TRANSPORT): ", "Did you mean 'tcp'?");
  ExpectRefused(refused("GRADWIRE_TRANSPORT", "faulty(tcpp)"),
                "'transport' = 'faulty(tcpp)' (from GRADWIRE_TRANSPORT): ", "is called 'tcpp'");
  ExpectRefused(refused("GRADWIRE_CONFIG", "/nowhere.toml"),
                "'config' = '/nowhere.toml' (from GRADWIRE_CONFIG): ", "cannot be read");
  ExpectRefused(refused("GRADWIRE_WINDOW", "many"),
                "'window' = 'many' (from GRADWIRE_WINDOW): ", "a whole number");
}

// Also of the process's, which in an environment hold from its first communicator on.
TEST(LoadSettings, CallsTheTextAsItsGiverDoes) {
  const auto refused = [](const std::string& pair) {
    return LoadSettings(pair, {}, "the shell").status();
  };
  ExpectRefused(refused("transport=tcpp"), "'transport' = 'tcpp' (from the shell): ", "'tcp'?");
  ExpectRefused(refused("debug_subsys=NETT"),
                "'debug_subsys' = 'NETT' (from the shell): ", "no log subsystem");
  ExpectRefused(refused("debug_file=/no/where"),
                "'debug_file' = '/no/where' (from the shell): ", "cannot open log file");
  ExpectRefused(refused("failpoint=nowhere"),
                "'failpoint' = 'nowhere' (from the shell): ", "no failpoint");
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
