#include "cli/advise/advise_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>

namespace gradwire {
namespace {

AdviseOptions Options(double compute_ms) {
  return {.model = {"small", {{"matrix", {100, 10}}, {"bias", {10}}}},
          .compute_ms = compute_ms,
          .automatic = *MakeAutoSpec("auto"),
          .command_line = "gradwire advise --model small"};
}

Advice Compressing(double compute_ms) {
  return {
      .compute_ms = compute_ms,
      .measured = {.none_ms = 205.2, .bf16_ms = 104},
      .us_per_message = 80,
      .us_per_byte = 0.009,
      .tried_plans = 3,
      .compress = true,
      .plans = {{.name = "none", .predicted_ms = 200, .wire_bytes = 8e6, .tried_ms = 205.2},
                {.name = "bf16",
                 .predicted_ms = 110,
                 .codec_ms = 2,
                 .wire_bytes = 4e6,
                 .distance = 0.003,
                 .bound = 0.1}},
      .advised = {.name = "advised", .predicted_ms = 58, .wire_bytes = 2e6, .tried_ms = 61.04},
      .tensors = {{"matrix", 1000, "bf16", 98.5, 37.46, 0.5}, {"bias", 10, "none", 61.04, 0, 0}}};
}

std::string Line(const std::string& text, std::string_view begin) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(begin)) return line;
  }
  return "no such line";
}

TEST(Summary, IsOneSentence) {
  EXPECT_EQ(Summary(Compressing(0)).find("if nothing else is computed, compress: a step takes"),
            0u);
  Advice advice = Compressing(50);
  EXPECT_EQ(Summary(advice),
            "compress: a step takes about 61 ms instead of 205 ms and sends 75 % fewer bytes");
  advice.compress = false;
  EXPECT_EQ(Summary(advice),
            "do not compress: no codec within its bound makes a step of about 205 ms at least 3 % "
            "shorter");
  advice.plans[0].tried_ms = 51.24;
  EXPECT_EQ(Summary(advice),
            "do not compress: communication hides behind compute and adds about 1.24 ms to 50 ms");
}

TEST(AdviceText, BeginsWithTheSummary) {
  const std::string text = AdviceText(Options(50), {.host = "here", .ranks = 4}, Compressing(50));
  EXPECT_EQ(text.find(Summary(Compressing(50)) + "\n# gradwire "), 0u) << text;
  EXPECT_EQ(Line(text, "# tensor"), "# tensor  elems  choice  without_ms  gain_ms  saved");
  EXPECT_EQ(Line(text, "  matrix"), "  matrix  1000   bf16    98.500      37.460   50.0%");
  EXPECT_EQ(Line(text, "  bias"), "  bias    10     none    61.040      0.000    0.0%");
  EXPECT_EQ(Line(text, "# plan"),
            "# plan     predicted_ms  tried_ms  wire_MB  codec_ms  distance  bound");
  EXPECT_EQ(Line(text, "  none"),
            "  none     200.000       205.200   8.000    0.000     -         -");
  EXPECT_EQ(Line(text, "  bf16"),
            "  bf16     110.000       -         4.000    2.000     0.003     0.1");
  EXPECT_EQ(Line(text, "  advised"),
            "  advised  58.000        61.040    2.000    0.000     -         -");
  EXPECT_EQ(text.find("nothing can hide"), std::string::npos);
  EXPECT_EQ(Line(text, "# tried"), "# tried: 3 plans in turns");
}

TEST(AdviceText, EndsWithTheSummaryWhereATableHidesTheFirstLine) {
  Advice advice = Compressing(50);
  EXPECT_EQ(Line(AdviceText(Options(50), {}, advice), "# compress"), "no such line");
  advice.tensors.resize(30, advice.tensors[0]);
  EXPECT_TRUE(AdviceText(Options(50), {}, advice).ends_with("\n# " + Summary(advice) + "\n"));
}

TEST(AdviceText, SaysThatTheMachineWasNotTheSameAllTheTime) {
  RunFacts facts = {.ping_pong_before_us = 0.08, .ping_pong_after_us = 0.09, .probed = true};
  const auto text = [&] { return AdviceText(Options(50), facts, Compressing(50)); };
  EXPECT_EQ(Line(text(), "# machine state after"), "# machine state after  : 0.09 us (fast)");
  EXPECT_EQ(Line(text(), "# the machine"), "no such line");
  facts.ping_pong_after_us = 0.31;
  EXPECT_EQ(Line(text(), "# the machine"),
            "# the machine changed its state meanwhile: measure again");
}

TEST(AdviceText, SaysThatWithoutComputeNothingHides) {
  const std::string text = AdviceText(Options(0), {}, Compressing(0));
  EXPECT_EQ(Line(text, "# without compute"),
            "# without compute nothing can hide: give --compute-ms, what a step computes");
}

TEST(AdviceJson, HasEverythingPrinted) {
  const auto json =
      nlohmann::json::parse(AdviceJson(Options(0), {.host = "here", .ranks = 4}, Compressing(0)));
  EXPECT_EQ(json["ranks"], 4);
  EXPECT_EQ(json["summary"], Summary(Compressing(0)));
  EXPECT_EQ(json["compress"], true);
  EXPECT_EQ(json["tried_plans"], 3);
  EXPECT_NE(json["note"].get<std::string>().find("nothing can hide"), std::string::npos);
  EXPECT_EQ(json["model"]["elems"], 1010);
  EXPECT_EQ(json["spec"], MakeAutoSpec("auto")->spec);
  EXPECT_EQ(json["link"]["none_ms"], 205.2);
  EXPECT_EQ(json["tensors"][0]["choice"], "bf16");
  EXPECT_EQ(json["tensors"][0]["without_ms"], 98.5);
  EXPECT_EQ(json["tensors"][0]["gain_ms"], 37.46);
  EXPECT_EQ(json["tensors"][1]["saved"], 0);
  ASSERT_EQ(json["plans"].size(), 3u);
  EXPECT_TRUE(json["plans"][0]["bound"].is_null());
  EXPECT_EQ(json["plans"][1]["distance"], 0.003);
  EXPECT_EQ(json["plans"][2]["plan"], "advised");
  EXPECT_EQ(json["plans"][2]["step_ms"], 61.04);
  EXPECT_EQ(json["plans"][2]["tried_ms"], 61.04);
  EXPECT_EQ(json["plans"][2]["predicted_ms"], 58);
  EXPECT_EQ(json["plans"][1]["step_ms"], 110);
  EXPECT_TRUE(json["plans"][1]["tried_ms"].is_null());
}

}  // namespace
}  // namespace gradwire
