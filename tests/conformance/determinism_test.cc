// Bits are a function of what is put in, never of timing: the same operations over a transport that
// delays, refuses and reorders give the same bytes as without, on all ranks.
#include <gtest/gtest.h>

#include <string>

#include "compress/registry.h"
#include "tests/conformance/determinism_world.h"
#include "tests/lib/sanitized.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

constexpr int kConfigurations = kSanitized ? 250 : 1000;

TEST(Determinism, TimingChangesNoBits) {
  for (uint64_t number = 0; number < kConfigurations; ++number) {
    ASSERT_EQ(CheckTiming(TestSeed(), number), "") << TestSeedText();
  }
}

// The dither of a step is its own; what rounds to nearest has none.
TEST(Determinism, StepsDifferExactlyWhereRoundingIsRandom) {
  for (const std::string& spec : ConformanceSpecs(false)) {
    StepsConfig c = {.job = {.world_size = 3, .loopback = true}, .specs = {spec}, .sizes = {2000}};
    c.steps = {1, 2};  // one may be exact, before a method starts
    const StepsRun first = RunSteps(c);
    ASSERT_EQ(first.complaint, "") << spec;
    EXPECT_EQ(RunSteps(c).ranks[0].common, first.ranks[0].common) << spec;
    EXPECT_EQ(RunSteps(c).ranks[0].own, first.ranks[0].own) << spec;
    c.steps = {3, 4};
    const Codec codec = *MakeCodec(spec);
    const CodecTraits& traits = codec.payload ? codec.payload->traits() : codec.carrier->traits();
    const bool random = traits.stochastic;
    EXPECT_EQ(RunSteps(c).ranks[0].common != first.ranks[0].common, random) << spec;
  }
}

}  // namespace
}  // namespace gradwire
