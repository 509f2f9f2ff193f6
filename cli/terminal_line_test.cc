#include "cli/terminal_line.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

namespace gradwire {
namespace {

bool ShowsAfter(std::initializer_list<std::string_view> texts) {
  TerminalLine line;
  for (const std::string_view text : texts) line.Write(text);
  return line.shows();
}

TEST(TerminalLine, ShowsWhatIsWrittenOver) {
  EXPECT_TRUE(ShowsAfter({"\r 10%"}));
  EXPECT_TRUE(ShowsAfter({"10%\r"}));
  EXPECT_TRUE(ShowsAfter({"\r 10%\x1b[K"}));
  EXPECT_TRUE(ShowsAfter({"\r 10%", "\r"}));
  EXPECT_TRUE(ShowsAfter({"done\n\r 10%"}));
  EXPECT_TRUE(ShowsAfter({std::string(kClearLine) + "10%"}));
}

TEST(TerminalLine, ShowsNothingThatWasClearedOrEnded) {
  EXPECT_FALSE(ShowsAfter({}));
  EXPECT_FALSE(ShowsAfter({"\r 10%", kClearLine}));
  EXPECT_FALSE(ShowsAfter({"\r 10%\x1b[K\r\x1b[K"}));
  EXPECT_FALSE(ShowsAfter({"\r 10%", "\r 20%\n"}));
  EXPECT_FALSE(ShowsAfter({"a line\n"}));
  EXPECT_FALSE(ShowsAfter({"a piece of a long line"})) << "nobody writes over it";
}

TEST(TerminalLine, ForgetsWhatSomebodyElseHasEnded) {
  TerminalLine line;
  line.Write("\r 10%");
  line.Forget();
  EXPECT_FALSE(line.shows());
}

}  // namespace
}  // namespace gradwire
