#include "cli/advise/advise_options.h"

#include <gtest/gtest.h>

#include <vector>

#include "cli/subcommand.h"

namespace gradwire {
namespace {

// The least that must be said, and `more`.
std::optional<int> Parse(std::vector<std::string> more, AdviseOptions* options) {
  std::vector<std::string> args = {"--model", "fashion-mlp"};
  args.insert(args.end(), more.begin(), more.end());
  return ParseAdviseOptions(args, options);
}

TEST(AdviseOptions, Defaults) {
  AdviseOptions options;
  ASSERT_EQ(Parse({}, &options), std::nullopt);
  EXPECT_EQ(options.model.name, "fashion-mlp");
  EXPECT_EQ(options.compute_ms, 0);
  EXPECT_EQ(options.automatic.spec, MakeAutoSpec("auto")->spec);
  EXPECT_EQ(options.json_path, "");
}

TEST(AdviseOptions, BoundsAndFurtherCodecs) {
  AdviseOptions options;
  ASSERT_EQ(Parse({"--error", "0.02", "--lag", "12", "--allow", "topk(0.01),powersgd",
                   "--compute-ms", "80", "--scale", "0.5"},
                  &options),
            std::nullopt);
  EXPECT_EQ(options.automatic.ladder[kBf16Rung].bound, 0.02);
  EXPECT_EQ(options.automatic.ladder.back().bound, 12);
  ASSERT_EQ(options.automatic.ladder.size(), 10u);
  EXPECT_TRUE(options.automatic.ladder[5].codec.spec.starts_with("topk("));
  for (int strength = 6; strength < 10; ++strength)
    EXPECT_TRUE(options.automatic.ladder[strength].codec.spec.starts_with("powersgd("));
  EXPECT_EQ(options.compute_ms, 80);
  EXPECT_EQ(options.model.tensors[0].lengths, (std::vector<int64_t>{128, 784}));
}

TEST(AdviseOptions, RefusesWhatIsWrong) {
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"--compute-ms", "-1"},
                                             {"--compute-ms", "nan"},
                                             {"--scale", "0"},
                                             {"--error", "2"},
                                             {"--error", "nan"},
                                             {"--lag", "much"},
                                             {"--allow", "tpok"},
                                             {"--allow", "topk(0.01"},
                                             {"--shapes", "also.json"},
                                             {"--nothing"}}) {
    AdviseOptions options;
    EXPECT_EQ(Parse(more, &options), kExitUsage) << more[0];
  }
  AdviseOptions options;
  EXPECT_EQ(ParseAdviseOptions({}, &options), kExitUsage);
}

}  // namespace
}  // namespace gradwire
