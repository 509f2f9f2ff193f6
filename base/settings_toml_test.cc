#include "base/settings_toml.h"

#include <gtest/gtest.h>

#include <string>

namespace gradwire {
namespace {

TEST(ReadTomlEntries, EveryScalarBecomesText) {
  const auto entries = ReadTomlEntries(
      "# comment\n"
      "a = 4\n"
      "b = \"1M\"\n"
      "c = true\n"
      "\n"
      "d = 0.25\n"
      "e = 'C:\\raw'\n"
      "f = 1_000\n",
      "dir/gradwire.toml");
  ASSERT_TRUE(entries.ok()) << entries.status().ToString();
  const std::vector<TomlEntry> want = {
      {"a", "4", "dir/gradwire.toml:2"},       {"b", "1M", "dir/gradwire.toml:3"},
      {"c", "on", "dir/gradwire.toml:4"},      {"d", "0.25", "dir/gradwire.toml:6"},
      {"e", "C:\\raw", "dir/gradwire.toml:7"}, {"f", "1000", "dir/gradwire.toml:8"}};
  ASSERT_EQ(entries->size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ((*entries)[i].name, want[i].name);
    EXPECT_EQ((*entries)[i].text, want[i].text);
    EXPECT_EQ((*entries)[i].origin, want[i].origin);
  }
}

TEST(ReadTomlEntries, NothingIsNoError) {
  EXPECT_TRUE(ReadTomlEntries("", "x")->empty());
  EXPECT_TRUE(ReadTomlEntries("# only a comment\n", "x")->empty());
}

TEST(ReadTomlEntries, ErrorsNameFileAndLine) {
  for (const std::string_view bad :
       {"a = 1\nb =\n", "a = 1\na = 2\n", "a = 1\nb = [1, 2]\n", "a = 1\n[table]\nc = 3\n",
        "a = 1\nb = 1979-05-27\n", "a = 1\nb = 99999999999999999999\n"}) {
    const Status status = ReadTomlEntries(bad, "gradwire.toml").status();
    EXPECT_EQ(status.code(), gwInvalidArgument) << bad;
    EXPECT_EQ(status.detail().message.find("gradwire.toml:2"), 0u) << status.ToString();
  }
  // The parser reads ahead, so the line is not exact here.
  const Status no_utf8 = ReadTomlEntries("a = 1\n\xFF\n", "gradwire.toml").status();
  EXPECT_EQ(no_utf8.code(), gwInvalidArgument);
}

TEST(ReadTomlEntries, SaysThatTextNeedsQuotes) {
  for (const std::string_view bad :
       {"transport = tcp", "transport=tcp # fast", "transport = qsgd(bits=4)", "transport = none",
        "transport = info", "transport = fp16", "transport = 90s", "transport = /tmp/x",
        "transport = on\r", "transport = 10.0.0.1:80", "transport = 4 5", "  transport =  64K  "}) {
    const Status status =
        ReadTomlEntries("a = 1\n" + std::string(bad) + "\nb = 2\n", "gradwire.toml").status();
    EXPECT_EQ(status.detail().message,
              "gradwire.toml:2: the value of 'transport' is text without quotes")
        << bad;
    EXPECT_EQ(status.detail().hint, "Write transport = \"...\"") << bad;
  }
}

TEST(ReadTomlEntries, ANameThatComesTwiceIsNoLackOfQuotes) {
  for (const std::string_view bad : {"a = true", "a = 4  # x"}) {
    const Status status =
        ReadTomlEntries("a = 1\n" + std::string(bad) + "\n", "gradwire.toml").status();
    EXPECT_EQ(status.detail().message.find("gradwire.toml:2: not valid TOML"), 0u)
        << status.ToString();
  }
}

TEST(ReadTomlEntries, OtherMistakesAreNoLackOfQuotes) {
  for (const std::string_view bad : {"a =", "a", "a = \"x", "a = 'x\"", "a = [1, 2", "a = {b = 1",
                                     "a = # none", "a == 4", "a = 99999999999999999999"}) {
    const Status status = ReadTomlEntries(bad, "gradwire.toml").status();
    EXPECT_EQ(status.code(), gwInvalidArgument) << bad;
    EXPECT_EQ(status.ToString().find("quotes"), std::string::npos) << status.ToString();
  }
}

}  // namespace
}  // namespace gradwire
