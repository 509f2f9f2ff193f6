#include "cli/perf/perf_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/subcommand.h"

namespace gradwire {
namespace {

std::optional<int> Parse(std::vector<std::string> args, PerfOptions* options) {
  return ParsePerfOptions(args, options);
}

TEST(PerfOptions, DefaultsAreThoseOfNcclTests) {
  PerfOptions options;
  ASSERT_EQ(Parse({}, &options), std::nullopt);
  ASSERT_EQ(options.cases.size(), 1u);
  EXPECT_EQ(options.cases[0].bytes, 32 << 20);
  EXPECT_EQ(options.cases[0].collective, Collective::kAllReduce);
  EXPECT_EQ(options.cases[0].spec, "none");
  EXPECT_EQ(options.iterations, 20);
  EXPECT_EQ(options.checks, 1);
  EXPECT_EQ(options.settings, "");
}

TEST(PerfOptions, SizesTypesAndCodecsAreMultiplied) {
  PerfOptions options;
  ASSERT_EQ(Parse({"-b", "1K", "-e", "4K", "-x", "none", "-x", "bf16", "-d", "half"}, &options),
            std::nullopt);
  ASSERT_EQ(options.cases.size(), 6u);
  EXPECT_EQ(options.cases[0].spec, "none");
  EXPECT_EQ(options.cases[2].bytes, 4096);
  EXPECT_EQ(options.cases[3].spec, "bf16(feedback=off)");
  EXPECT_EQ(options.cases[5].dtype, DType::kFloat16);
  PerfOptions all;
  ASSERT_EQ(Parse({"-d", "all", "-o", "all"}, &all), std::nullopt);
  EXPECT_EQ(all.cases.size(), static_cast<size_t>(kDTypes * kReduceOps));
}

TEST(PerfOptions, LibraryOptionsBecomeSettings) {
  PerfOptions options;
  ASSERT_EQ(Parse({"--algorithm", "ring", "--transport", "loopback", "--slice", "4096", "--record",
                   "/tmp/r", "--set", "window=2"},
                  &options),
            std::nullopt);
  EXPECT_EQ(options.settings,
            "window=2; algorithm=ring; transport=loopback; record_messages=/tmp/r; "
            "slice_elems=4096");
}

TEST(PerfOptions, AnAlgorithmIsForThoseThatTakeIt) {
  for (const char* spec : {"none", "terngrad", "topk(0.01)"}) {
    PerfOptions options;
    EXPECT_EQ(Parse({"--algorithm", "ring", "-x", "bf16", "-x", spec}, &options), std::nullopt);
  }
  PerfOptions options;
  EXPECT_EQ(Parse({"--algorithm", "auto", "--collective", "broadcast"}, &options), std::nullopt);
}

TEST(PerfOptions, AMisspeltAlgorithmIsToldAsThat) {
  PerfOptions options;
  testing::internal::CaptureStderr();
  EXPECT_TRUE(Parse({"--algorithm", "rnig", "--collective", "broadcast"}, &options).has_value());
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("Did you mean 'ring'?"));
}

TEST(PerfOptions, TakesCommandLinesOfNcclTests) {
  PerfOptions options;
  ASSERT_EQ(Parse({"-b",
                   "8",
                   "-e",
                   "128",
                   "-f",
                   "2",
                   "-t",
                   "2",
                   "-g",
                   "4",
                   "-m",
                   "3",
                   "-C",
                   "1",
                   "-T",
                   "30",
                   "-p",
                   "1",
                   "-z",
                   "1",
                   "-G",
                   "0",
                   "-R",
                   "0",
                   "-y",
                   "1",
                   "-c",
                   "2",
                   "--output_file",
                   "out.json"},
                  &options),
            std::nullopt);
  EXPECT_EQ(options.cases.size(), 5u);
  EXPECT_EQ(options.thread_ranks, 8);
  EXPECT_EQ(options.operations, 3);
  EXPECT_EQ(options.checks, 2);
  EXPECT_EQ(options.json_path, "out.json");
  EXPECT_TRUE(options.processor_time);
  EXPECT_EQ(options.settings, "op_timeout_ms=30000");
}

TEST(PerfOptions, RefusesWhatCannotBeMeasured) {
  const std::vector<std::vector<std::string>> wrong = {
      {"-b", "x"},
      {"-b", "2K", "-e", "1K"},
      {"-d", "quarter"},
      {"-o", "mean"},
      {"-x", "qsdg"},
      {"-x", "bf16", "-d", "int32"},
      {"--collective", "allreduse"},
      {"-x", "bf16", "-o", "max"},
      {"-n", "0"},
      {"-a", "4"},
      {"-x", "bf16", "--collective", "broadcast"},
      {"--collective", "broadcast", "--algorithm", "ring"},
      {"-x", "bf16", "--algorithm", "ring"},
      {"-C", "2"},
      {"-m", "0"},
      {"-t", "200", "-g", "2"},
      {"-G", "1"},
      {"-R", "1"}};
  for (const auto& args : wrong) {
    PerfOptions options;
    EXPECT_EQ(Parse(args, &options), kExitUsage) << args[0] << " " << args[1];
  }
}

TEST(PerfOptions, SaysWhereAutoIsMeasured) {
  for (const char* spec : {"auto", "auto(error=0.2)"}) {
    PerfOptions options;
    testing::internal::CaptureStderr();
    EXPECT_EQ(Parse({"-x", spec}, &options), kExitUsage);
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_NE(text.find("registered tensors in training steps"), std::string::npos) << text;
    EXPECT_NE(text.find("gradwire train -x auto"), std::string::npos) << text;
    EXPECT_EQ(text.find("unknown codec"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace gradwire
