#include "cli/launch/line_relay.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

TEST(LineRelay, PassesWholeLinesOnly) {
  LineRelay relay("[1] ");
  EXPECT_EQ(relay.Append("ab"), "");
  EXPECT_EQ(relay.Append("c\nde"), "[1] abc\n");
  EXPECT_EQ(relay.Append("\n\nf\ng"), "[1] de\n[1] \n[1] f\n");
  EXPECT_EQ(relay.Finish(), "[1] g\n");
  EXPECT_EQ(relay.Finish(), "");
}

TEST(LineRelay, WithoutPrefixBytesComeAsTheyAre) {
  LineRelay relay("");
  EXPECT_EQ(relay.Append("one\ntwo\n"), "one\ntwo\n");
  EXPECT_EQ(relay.Finish(), "");
}

TEST(LineRelay, AnEndlessLineIsPassedOnInPieces) {
  LineRelay relay("> ");
  const std::string endless(2 * LineRelay::kMaxLineBytes + 5, 'x');
  const std::string piece = "> " + std::string(LineRelay::kMaxLineBytes, 'x') + "\n";
  EXPECT_EQ(relay.Append(endless), piece + piece);
  EXPECT_EQ(relay.Append("\n"), "> xxxxx\n");
}

TEST(LineRelay, WithoutPrefixAnEndlessLineStaysOne) {
  LineRelay relay("");
  const std::string endless(2 * LineRelay::kMaxLineBytes + 5, 'x');
  std::string out = relay.Append(endless);
  EXPECT_EQ(out, std::string(2 * LineRelay::kMaxLineBytes, 'x'));
  out += relay.Append("\nnext\n");
  EXPECT_EQ(out, endless + "\nnext\n");
  out = relay.Append(endless);
  EXPECT_EQ(out + relay.Finish(), endless + "\n");
}

TEST(LineRelay, ALineOfTheLargestPieceHasNoEmptyLineBehindIt) {
  const std::string line(LineRelay::kMaxLineBytes, 'x');
  for (const char* prefix : {"", "> "}) {
    LineRelay relay(prefix);
    std::string out = relay.Append(line);
    out += relay.Append("\n");
    out += relay.Append(line);
    EXPECT_EQ(out + relay.Finish(), prefix + line + "\n" + prefix + line + "\n") << prefix;
  }
}

TEST(LineRelay, WhatOneRankHasToldOfOurCommandNoOtherRepeats) {
  ToldLines told;
  LineRelay first("", &told), second("[1] ", &told);
  EXPECT_EQ(second.Append("gradwire perf: no\nother\n"), "[1] gradwire perf: no\n[1] other\n");
  EXPECT_EQ(first.Append("gradwire perf: no\nother\n"), "other\n");
  // Who has told it may do so again, and others may tell more.
  EXPECT_EQ(second.Append("gradwire perf: no\n"), "[1] gradwire perf: no\n");
  EXPECT_EQ(first.Append("gradwire perf: no 2\n"), "gradwire perf: no 2\n");
  EXPECT_EQ(first.Append("gradwire perf: no") + first.Finish(), "");
}

TEST(LineRelay, KnowsAnErrorBehindProgress) {
  ToldLines told;
  LineRelay first("", &told), second("[1] ", &told);
  EXPECT_EQ(first.Append("\rstep 1\x1b[K\r\x1b[Kgradwire train: no\n"),
            "\rstep 1\x1b[K\r\x1b[Kgradwire train: no\n");
  EXPECT_EQ(second.Append("gradwire train: no\n"), "");
}

TEST(LineRelay, WhatIsNoErrorOfOurCommandEveryRankTells) {
  for (const std::string line :
       {"gradwire step 5 done\n", "gradwire : no\n", "gradwirey perf: no\n"}) {
    ToldLines told;
    LineRelay first("", &told), second("", &told);
    EXPECT_EQ(first.Append(line), line);
    EXPECT_EQ(second.Append(line), line);
  }
}

TEST(LineRelay, PassesProgressOnWhereItIsSeen) {
  LineRelay hidden(""), seen("");
  seen.PassProgress();
  EXPECT_EQ(hidden.Append("\r 10%"), "");
  EXPECT_EQ(hidden.Append("\r 20%\n"), "\r 10%\r 20%\n");
  EXPECT_EQ(seen.Append("\r 10%"), "\r 10%");
  EXPECT_EQ(seen.Append("\r 20%\nno line"), "\r 20%\n");
  EXPECT_EQ(seen.Append(" yet\r"), "no line yet\r");
  EXPECT_EQ(seen.Append("\n") + seen.Finish(), "\n");
}

TEST(LineRelay, TheSameTextHoweverItIsCut) {
  const std::string text = "a\n\nbcd\nefgh\n";
  for (size_t step = 1; step <= text.size(); ++step) {
    LineRelay relay("- ");
    std::string out;
    for (size_t at = 0; at < text.size(); at += step) out += relay.Append(text.substr(at, step));
    EXPECT_EQ(out + relay.Finish(), "- a\n- \n- bcd\n- efgh\n") << step;
  }
}

}  // namespace
}  // namespace gradwire
