#include "cli/train/train_options.h"

#include <gtest/gtest.h>

#include <fstream>

#include "cli/subcommand.h"

namespace gradwire {
namespace {

// The least that must be said, and `more`.
std::optional<int> Parse(std::vector<std::string> more, TrainOptions* options) {
  std::vector<std::string> args = {"--model", "fashion-mlp", "--compute-ms", "2"};
  args.insert(args.end(), more.begin(), more.end());
  return ParseTrainOptions(args, options);
}

TEST(TrainOptions, Defaults) {
  TrainOptions options;
  ASSERT_EQ(Parse({}, &options), std::nullopt);
  EXPECT_EQ(options.model.name, "fashion-mlp");
  EXPECT_EQ(options.compute_ms, 2);
  EXPECT_EQ(options.compute, ComputeKind::kDevice);
  EXPECT_EQ(options.specs, (std::vector<std::string>{"none"}));
  EXPECT_EQ(options.settings, "");
}

TEST(TrainOptions, SpecsTakeTurnsInBlocks) {
  TrainOptions options;
  ASSERT_EQ(Parse({"-x", "none", "-x", "bf16"}, &options), std::nullopt);
  EXPECT_EQ(options.specs, (std::vector<std::string>{"none", "bf16"}));
  EXPECT_EQ(options.round_steps, std::vector<int>(6, 5));
  TrainOptions blocks;
  ASSERT_EQ(Parse({"-x", "none", "-x", "bf16", "--blocks", "3", "--block", "4"}, &blocks),
            std::nullopt);
  EXPECT_EQ(blocks.round_steps, std::vector<int>(3, 4));
  TrainOptions steps;
  ASSERT_EQ(Parse({"-x", "none", "-x", "bf16", "--steps", "11"}, &steps), std::nullopt);
  EXPECT_EQ(steps.round_steps, (std::vector<int>{6, 5}));
}

TEST(TrainOptions, OneSpecIsOneBlockUnlessMoreAreAskedFor) {
  TrainOptions options;
  ASSERT_EQ(Parse({"-x", "bf16", "--steps", "500"}, &options), std::nullopt);
  EXPECT_EQ(options.round_steps, std::vector<int>{500});
  TrainOptions usual;
  ASSERT_EQ(Parse({"-x", "bf16"}, &usual), std::nullopt);
  EXPECT_EQ(usual.round_steps, std::vector<int>{30});
  TrainOptions blocks;
  ASSERT_EQ(Parse({"-x", "bf16", "--blocks", "4"}, &blocks), std::nullopt);
  EXPECT_EQ(blocks.round_steps, std::vector<int>(4, 5));
}

TEST(TrainOptions, ScaleComputeAndWarmUp) {
  TrainOptions options;
  ASSERT_EQ(Parse({"--scale", "0.5", "--compute", "host", "-w", "7"}, &options), std::nullopt);
  EXPECT_EQ(options.model.tensors[0].lengths, (std::vector<int64_t>{128, 784}));
  EXPECT_EQ(options.compute, ComputeKind::kHost);
  EXPECT_EQ(options.warm_ups, 7);
}

TEST(TrainOptions, TakesShapesFromAFile) {
  const std::string path = testing::TempDir() + "/shapes.json";
  std::ofstream(path) << R"({"name": "mine", "tensors": [{"name": "a", "shape": [3]}]})";
  TrainOptions options;
  const std::vector<std::string> args = {"--shapes", path, "--compute-ms", "0"};
  ASSERT_EQ(ParseTrainOptions(args, &options), std::nullopt);
  EXPECT_EQ(options.model.name, "mine");
  EXPECT_EQ(options.model.elems(), 3);
}

TEST(TrainOptions, RefusesWhatIsNoTraining) {
  const std::vector<std::vector<std::string>> wrong = {
      {"--shapes", "x.json"}, {"--scale", "0"},     {"--scale", "1.5"},
      {"--scale", "nan"},     {"--compute", "gpu"}, {"--steps", "1"},
      {"--block", "1"},       {"--blocks", "0"},    {"--steps", "9", "--blocks", "3"},
      {"--ranks", "0"}};
  for (const auto& args : wrong) {
    TrainOptions options;
    EXPECT_EQ(Parse(args, &options), kExitUsage) << args[0] << " " << args[1];
  }
}

TEST(TrainOptions, ModelAndComputingMustBeThere) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"--model", "gpt2"},
        {"--compute-ms", "3"},
        {"--compute-ms", "-3", "--model", "gpt2"},
        {"--compute-ms", "nan", "--model", "gpt2"},
        {"--compute-ms", "3", "--model", "gpt3"},
        {"--compute-ms", "3", "--shapes", "/nowhere/shapes.json"}}) {
    TrainOptions options;
    EXPECT_EQ(ParseTrainOptions(args, &options), kExitUsage) << args[0];
  }
}

}  // namespace
}  // namespace gradwire
