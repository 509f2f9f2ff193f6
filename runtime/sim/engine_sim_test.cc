// Whole jobs in virtual time: random tensors, codecs, groups, collectives and timing, and in most
// of them one thing that goes wrong. A job with trouble must end like the same job without.
//
//   bazel test :engine_sim_test --test_arg=--seed=4711     repeats one of them
//   bazel test :engine_sim_test --test_arg=--first=500000  takes others
//   ./run soak --seeds 1000000                                      takes many
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "runtime/sim/sim_check.h"
#include "tests/lib/sanitized.h"

namespace gradwire {
namespace {

// Of the command line.
uint64_t only_seed = 0;  // 0: kSeeds of them
uint64_t first_seed = 0;
constexpr uint64_t kSeeds = kSanitized ? 200 : 10'000;
constexpr int kBlocks = 20;

// Seeds above kSeeds that have failed once.
TEST(EngineSimKnown, SeedsThatFailedOnce) {
  ASSERT_EQ(CheckSimSeed(21474).complaint, "");  // an abort that some ranks never hear of
  // Two damaged headers, and ranks that do not agree which operation is the first in doubt.
  ASSERT_EQ(CheckSimSeed(3001779).complaint, "");
}

class EngineSim : public testing::TestWithParam<int> {};

TEST_P(EngineSim, TroubleChangesNothingThatIsCommitted) {
  if (only_seed != 0) {
    if (GetParam() > 0) return;
    ASSERT_EQ(CheckSimSeed(only_seed).complaint, "");
    return;
  }
  for (uint64_t seed = 1; seed <= kSeeds / kBlocks; ++seed) {
    ASSERT_EQ(CheckSimSeed(first_seed + seed * kBlocks + GetParam()).complaint, "");
  }
}

INSTANTIATE_TEST_SUITE_P(Blocks, EngineSim, testing::Range(0, kBlocks));

}  // namespace
}  // namespace gradwire

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const auto value = [&](std::string_view name, uint64_t* to) {
      if (arg.starts_with(name)) *to = std::strtoull(argv[i] + name.size(), nullptr, 10);
    };
    value("--seed=", &gradwire::only_seed);
    value("--first=", &gradwire::first_seed);
  }
  return RUN_ALL_TESTS();
}
