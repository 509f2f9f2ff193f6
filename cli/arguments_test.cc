#include "cli/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/subcommand.h"

namespace gradwire {
namespace {

using Texts = std::vector<std::string>;

TEST(CommandLine, TellsGoOnFromHelpFromError) {
  const auto parse = [](Texts args, int* value) {
    CommandLine line("test", "gradwire test");
    line.Add("-n", value, "number");
    return line.Parse(args);
  };
  int value = 0;
  EXPECT_EQ(parse({"-n", "4"}, &value), std::nullopt);
  EXPECT_EQ(value, 4);
  EXPECT_EQ(parse({"--help"}, &value), kExitOk);
  EXPECT_EQ(parse({"-n", "four"}, &value), kExitUsage);
  EXPECT_EQ(parse({"--unknown"}, &value), kExitUsage);
}

TEST(CommandLine, SecondsAreFromNoneToAYear) {
  const auto parse = [](const std::string& text, double* value) {
    CommandLine line("test", "gradwire test");
    line.Add("--time", value, "seconds").Seconds();
    return line.Parse(Texts{"--time=" + text});
  };
  double value = -1;
  for (const auto& [text, seconds] : {std::pair("0", 0.0), {"0.25", 0.25}, {"31536000", 31536e3}}) {
    EXPECT_EQ(parse(text, &value), std::nullopt) << text;
    EXPECT_EQ(value, seconds);
  }
  for (const char* text : {"nan", "inf", "-1", "1e10", "31536001", "soon"}) {
    EXPECT_EQ(parse(text, &value), kExitUsage) << text;
  }
}

TEST(CommandLine, UnsignedNumbersAreTakenAsTheyStand) {
  const auto parse = [](const std::string& text, uint64_t* value) {
    CommandLine line("test", "gradwire test");
    line.Add("--seed", value, "number");
    return line.Parse(Texts{"--seed=" + text});
  };
  uint64_t value = 0;
  EXPECT_EQ(parse("18446744073709551615", &value), std::nullopt);
  EXPECT_EQ(value, UINT64_MAX);
  for (const char* text : {"-1", "18446744073709551616", "1.5", "1x", "+1"}) {
    EXPECT_EQ(parse(text, &value), kExitUsage) << text;
  }
}

TEST(CommandLine, SizesMayBeShort) {
  const auto parse = [](const std::string& text, int64_t* value) {
    CommandLine line("test", "gradwire test");
    line.Add("--slice", value, "number").InRange(256, 1 << 20).Size();
    return line.Parse(Texts{"--slice", text});
  };
  int64_t value = 0;
  EXPECT_EQ(parse("64K", &value), std::nullopt);
  EXPECT_EQ(value, 64 << 10);
  EXPECT_EQ(parse("1000", &value), std::nullopt);
  EXPECT_EQ(value, 1000);
  for (const char* text : {"255", "2M", "64Q"}) EXPECT_EQ(parse(text, &value), kExitUsage) << text;
}

TEST(CommandLine, SaysWhyAValueIsRefused) {
  const auto refuse = [](const Texts& args) {
    CommandLine line("test", "gradwire test");
    int64_t elems = 0;
    double factor = 1;
    int count = 1, ranks = 1;
    std::string rate;
    line.Add("--count", &count, "number");
    line.Add("--factor", &factor, "number");
    line.Add("--ranks", &ranks, "number").InRange(1, 1024);
    line.Add("--elems", &elems, "number").Size();
    line.Add("--rate", &rate, "text").NotEmpty();
    testing::internal::CaptureStderr();
    EXPECT_EQ(line.Parse(args), kExitUsage);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(refuse({"--elems", "-5"}),
              testing::StartsWith("gradwire test: --elems: '-5' is no size, as 1000 or 64K\n"));
  EXPECT_THAT(refuse({"--rate", ""}),
              testing::StartsWith("gradwire test: --rate: its value is empty\n"));
  EXPECT_THAT(refuse({"--count", "1.5"}),
              testing::HasSubstr("--count: '1.5' is no whole number, or too large a one\n"));
  EXPECT_THAT(refuse({"--factor", "x"}), testing::HasSubstr("--factor: 'x' is no number\n"));
  EXPECT_THAT(refuse({"--ranks", "1.5"}),
              testing::HasSubstr("--ranks: '1.5' is no whole number from 1 to 1024\n"));
  EXPECT_THAT(refuse({"--ranks", "0"}),
              testing::HasSubstr("--ranks: '0' is no whole number from 1 to 1024\n"));
  EXPECT_THAT(refuse({"--ranks"}), testing::HasSubstr("--ranks takes one value\n"));
  EXPECT_THAT(refuse({"--ranks", "2", "--ranks", "3"}),
              testing::HasSubstr("--ranks takes one value\n"));
  EXPECT_THAT(refuse({"a", "b", "c"}), testing::StartsWith("gradwire test: not expected: a b c\n"));
}

TEST(CommandLine, TakesAProgramBehindTheFirstDashes) {
  int ranks = 1;
  Texts program;
  const auto parse = [&](const Texts& args) {
    CommandLine line("test", "gradwire test");
    line.Add("-n", &ranks, "number");
    line.AddProgram(&program, "[OPTIONS] -- COMMAND");
    testing::internal::CaptureStderr();
    const std::optional<int> code = line.Parse(args);
    const std::string error = testing::internal::GetCapturedStderr();
    EXPECT_EQ(code.has_value(), !error.empty()) << error;
    return error;
  };
  EXPECT_EQ(parse({"-n", "4", "--", "cmd", "--", "-x"}), "");
  EXPECT_EQ(ranks, 4);
  EXPECT_EQ(program, (Texts{"cmd", "--", "-x"}));
  program.clear();
  for (const Texts& none : {Texts{}, Texts{"-n", "2"}, Texts{"-n", "2", "--"}})
    EXPECT_THAT(parse(none), testing::HasSubstr("no program; write it behind --\n"));
  EXPECT_THAT(parse({"-n", "2", "python3", "train.py", "--epochs", "3"}),
              testing::HasSubstr("not expected: python3 train.py --epochs 3. "
                                 "Write the program and its arguments behind --\n"));
}

// In groups of options too.
TEST(CommandLine, SuggestsTheNearestOption) {
  CommandLine line("test", "gradwire test");
  int steps = 0, seconds = 0;
  line.Add("-s,--steps", &steps, "number");
  CommandLine choice = line.AddChoice("time");
  choice.Add("--seconds", &seconds, "time");
  for (const auto& [wrong, right] :
       {std::pair("--step=4", "--steps"), {"--secnods", "--seconds"}}) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(line.Parse(Texts{"--seconds", "1", wrong}), kExitUsage);
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                testing::HasSubstr(std::string("Did you mean '") + right + "'?"));
  }
}

TEST(CommandLine, SaysInItsOwnWordsWhatToChoose) {
  const auto refuse = [](const Texts& args) {
    CommandLine line("test", "gradwire test");
    int steps = 0, seconds = 0;
    std::string kind;
    CommandLine choice = line.AddChoice("time");
    choice.Add("-n,--steps", &steps, "number");
    choice.Add("--seconds", &seconds, "time");
    line.Add("--kind", &kind, "text").OneOf({"host", "device"});
    testing::internal::CaptureStderr();
    EXPECT_EQ(line.Parse(args), kExitUsage);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(refuse({}), testing::StartsWith("gradwire test: --steps or --seconds is required\n"));
  EXPECT_THAT(refuse({"-n", "1", "--seconds", "2"}),
              testing::StartsWith("gradwire test: --steps and --seconds exclude each other\n"));
  EXPECT_THAT(refuse({"-n", "1", "--kind", "hots"}),
              testing::StartsWith("gradwire test: --kind: 'hots' is none of host, device. Did you "
                                  "mean 'host'?\n"));
  EXPECT_THAT(refuse({"-n", "1", "--kind", "4bit"}),
              testing::StartsWith("gradwire test: --kind: '4bit' is none of host, device\n"));
  EXPECT_THAT(refuse({"-n", "1", "--quux"}),
              testing::StartsWith("gradwire test: not expected: --quux\n"
                                  "gradwire test --help says more\n"));
}

TEST(CommandLine, NamesAllThatIsRequired) {
  const auto refuse = [](const Texts& args) {
    CommandLine line("test", "gradwire test");
    int steps = 0, seconds = 0, ranks = 0;
    CommandLine choice = line.AddChoice("time");
    choice.Add("--steps", &steps, "number");
    choice.Add("--seconds", &seconds, "time");
    line.Add("-n,--ranks", &ranks, "number").Required();
    testing::internal::CaptureStderr();
    EXPECT_EQ(line.Parse(args), kExitUsage);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(refuse({}), testing::StartsWith(
                              "gradwire test: --steps or --seconds, and --ranks are required\n"));
  EXPECT_THAT(refuse({"--steps", "1"}),
              testing::StartsWith("gradwire test: --ranks is required\n"));
}

TEST(CommandLine, TheFileBehindJsonIsOptional) {
  const auto parse = [](Texts args) {
    CommandLine line("test", "gradwire test");
    std::string path, other;
    line.AddJson("-J,--json", &path);
    line.Add("-x", &other, "another");
    EXPECT_EQ(line.Parse(args), std::nullopt);
    return path;
  };
  EXPECT_EQ(parse({}), "");
  EXPECT_EQ(parse({"--json"}), "-");
  EXPECT_EQ(parse({"-J"}), "-");
  EXPECT_EQ(parse({"--json", "-"}), "-");
  EXPECT_EQ(parse({"--json", "-x", "1"}), "-");
  EXPECT_EQ(parse({"--json", "file", "-x", "1"}), "file");
  EXPECT_EQ(parse({"--json=file"}), "file");
  EXPECT_EQ(parse({"-J", "file"}), "file");
}

}  // namespace
}  // namespace gradwire
