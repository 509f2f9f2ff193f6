#include "compress/codecs/acp/acp_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/conformance/lowrank_world.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

class AcpTest : public testing::Test {
 protected:
  RandomStream random_{TestSeed()};
  testing::ScopedTrace trace_{__FILE__, __LINE__, TestSeedText()};
};

TEST_F(AcpTest, HasOneRoundOfOneFactor) {
  const auto method = LowRankMethod("acp", 4);
  ASSERT_EQ(method->rounds(), 1);
  const auto elems = [&](std::vector<int64_t> shape, int64_t count, uint32_t turn) {
    const ConstBytes state(reinterpret_cast<const std::byte*>(&turn), sizeof turn);
    return method->Round(0, {.shape = shape, .elems = count}, 8, {}, state).elems;
  };
  EXPECT_EQ(elems({100, 5, 6}, 3000, 0), 400);
  EXPECT_EQ(elems({100, 5, 6}, 3000, 1), 120);
  EXPECT_EQ(elems({2, 100}, 200, 0), 4) << "the rank is clamped to 2";
  const std::vector<int64_t> shape = {30, 100};
  EXPECT_EQ(method->Round(0, {.shape = shape, .elems = 3000}, 8, {}, {}).elems, 260)
      << "of no step in particular: their mean";
}

// P, Q, P, ...: the next basis is the factor of this step.
TEST_F(AcpTest, SendsTheFactorsInTurn) {
  const MatrixShape shape = {10, 25};
  constexpr size_t kRank = 3;
  LowRankRanks ranks({.method = "acp", .rank = kRank, .shape = shape});
  for (int step = 0; step < 5; ++step) {
    ranks.Step({Gaussians(shape.elems(), &random_)});
    const Floats sent = FloatsOf(ranks.result(0).filled[0]);
    ASSERT_EQ(sent.size(), (step % 2 == 0 ? 10 : 25) * kRank) << "step " << step;
    EXPECT_EQ(std::count(sent.begin(), sent.end(), 0.0f), 0) << "step " << step;
    const Floats state = FloatsOf(ranks.state());
    EXPECT_TRUE(std::equal(sent.begin(), sent.end(), state.begin() + 1)) << "step " << step;
  }
}

// The columns that were found stay, whichever the turn: from random ones two steps find the matrix,
// as exactly as the random ones were independent, and a third exactly.
TEST_F(AcpTest, StepsInTurnAreOnePowerIteration) {
  const MatrixShape shape = {40, 60};
  const Floats m = MatrixOf(shape, {4, 3, 2, 1}, &random_);
  LowRankRanks ranks({.method = "acp", .shape = shape, .mode = ResidualMode::kNone});
  EXPECT_GT(Distance(ranks.Step({m}), m), 0.1);
  EXPECT_LE(Distance(ranks.Step({m}), m), 1e-2);
  EXPECT_LE(Distance(ranks.Step({m}), m), 1e-4);
}

// Columns orthogonal to all that follows would never be left.
TEST_F(AcpTest, DrawsNewColumnsWhereTheOldOnesFindNothing) {
  const MatrixShape shape = {6, 8};
  Floats left(48), right(48);
  left[0] = 1;    // row 0, column 0
  right[47] = 1;  // row 5, column 7
  LowRankRanks ranks({.method = "acp", .rank = 1, .shape = shape});
  for (int step = 0; step < 4; ++step) ranks.Step({left});
  ranks.Step({right});
  const Floats zeros(48);
  for (int step = 0; step < 6; ++step) ranks.Step({zeros});
  EXPECT_LE(std::sqrt(Energy(ranks.e(0))), 1e-5) << "all is delivered";
}

TEST_F(AcpTest, ABadStepKeepsTheTurn) {
  const MatrixShape shape = {10, 25};
  LowRankRanks ranks({.method = "acp", .shape = shape, .world_size = 2});
  const std::vector<Floats> grads(2, Gaussians(shape.elems(), &random_));
  ranks.Step(grads);
  const auto state = ranks.state();
  auto bad = grads;
  bad[0][7] = std::numeric_limits<float>::infinity();
  ranks.Step(bad);
  EXPECT_EQ(ranks.state(), state);
}

// In either turn, also on the rank that was finite: nothing is written before all are known to be.
TEST_F(AcpTest, InPlaceResidualsOutliveABadStepOfAnotherRank) {
  const MatrixShape shape = {10, 25};
  const LowRankRanks::Options options = {.method = "acp", .shape = shape, .world_size = 2};
  LowRankRanks separate(options);
  LowRankRanks::Options over = options;
  over.mode = ResidualMode::kInPlace;
  LowRankRanks in_place(over);
  for (int step = 0; step < 4; ++step) {
    SCOPED_TRACE(step);
    const std::vector<Floats> grads = {Gaussians(shape.elems(), &random_),
                                       Gaussians(shape.elems(), &random_)};
    auto bad = grads;
    bad[0][7] = std::numeric_limits<float>::infinity();
    in_place.Step(bad);
    for (int r = 0; r < 2; ++r) EXPECT_EQ(in_place.e(r), separate.e(r)) << "rank " << r;
    separate.Step(bad);
    EXPECT_EQ(in_place.Step(grads), separate.Step(grads));
    for (int r = 0; r < 2; ++r) EXPECT_EQ(in_place.e(r), separate.e(r)) << "rank " << r;
  }
}

TEST_F(AcpTest, ReadsItsSpec) {
  const auto make = [](std::vector<std::pair<std::string, std::string>> args) {
    return AcpRow().make({.name = "acp", .args = std::move(args)});
  };
  EXPECT_EQ(make({})->spec, "acp(rank=4)");
  EXPECT_EQ(make({{"rank", "1"}})->spec, "acp(rank=1)");
  EXPECT_EQ(make({})->feedback, Feedback::kOn);
  EXPECT_EQ(make({{"rank", "33"}}).status().code(), gwInvalidArgument);
  EXPECT_EQ(make({{"feedback", "off"}}).status().code(), gwInvalidArgument);
}

}  // namespace
}  // namespace gradwire
