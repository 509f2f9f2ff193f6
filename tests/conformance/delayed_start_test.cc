// Methods that begin after some steps: exact until then, and then as if they began there.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "tests/conformance/carrier_world.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

constexpr int kRanks = 3;
constexpr int64_t kRows = 48, kCols = 40, kElems = kRows * kCols;

class DelayedStart : public ::testing::TestWithParam<std::string> {
 protected:
  std::vector<EncodeCase> Draw() {
    std::vector<EncodeCase> cases;
    const Dither dither = {.seed = 5, .tensor = random_(), .step = 1};
    for (int r = 0; r < kRanks; ++r) {
      EncodeCase c{.mode = ResidualMode::kSeparate, .dither = dither, .shape = {kRows, kCols}};
      c.grad = MakeGrad(Kind::kGaussian, kElems, DType::kFloat32, &random_);
      c.e_in.resize(kElems);
      cases.push_back(std::move(c));
    }
    return cases;
  }
  // A step, committed.
  static std::vector<CarrierRank> Step(const std::string& spec, std::vector<EncodeCase>* cases) {
    const Codec codec = *MakeCodec(spec);
    auto results = RunCarriers(*codec.carrier, *cases, InOrder(kRanks));
    for (int r = 0; r < kRanks; ++r) {
      (*cases)[r].e_in = results[r].e_out;
      (*cases)[r].replicated = results[r].replicated;
    }
    return results;
  }
  static std::string Delayed(int steps) {
    return GetParam() + "(start_step=" + std::to_string(steps) + ")";
  }
  // The plain sum, in the order of the ranks.
  static void ExpectExact(const std::vector<EncodeCase>& cases, const CarrierRank& result) {
    const std::vector<std::vector<float>> inputs = InputsOf(cases);
    for (int64_t i = 0; i < kElems; ++i) {
      float sum = inputs[0][i];
      for (int r = 1; r < kRanks; ++r) sum += inputs[r][i];
      ASSERT_EQ(GradAt(result.out, DType::kFloat32, i), sum) << "element " << i;
      ASSERT_EQ(result.e_out[i], 0) << "element " << i;
    }
  }

  RandomStream random_{TestSeed()};
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, TestSeedText()};
};

TEST_P(DelayedStart, IsExactAndThenTheMethod) {
  std::vector<EncodeCase> plain = Draw(), delayed = plain;
  delayed[1].e_in = MakeResidual(kElems, &random_);  // what an earlier codec has left
  for (int step = 0; step < 2; ++step) {
    const std::vector<EncodeCase> before = delayed;
    ASSERT_NO_FATAL_FAILURE(ExpectExact(before, Step(Delayed(2), &delayed)[2])) << "step " << step;
  }
  for (int step = 0; step < 3; ++step) {
    const std::vector<CarrierRank> expected = Step(GetParam(), &plain);
    const std::vector<CarrierRank> actual = Step(Delayed(2), &delayed);
    for (int r = 0; r < kRanks; ++r) {
      ASSERT_EQ(actual[r].out, expected[r].out) << "step " << step;
      ASSERT_TRUE(SameBits(actual[r].e_out, expected[r].e_out)) << "step " << step;
    }
  }
}

// The tensor is NaN as a whole, as it is once the method has begun, and keeps its residuals.
TEST_P(DelayedStart, AStepThatIsNotFiniteDoesNotCount) {
  std::vector<EncodeCase> cases = Draw();
  std::vector<EncodeCase> bad = cases;
  const float infinity = std::numeric_limits<float>::infinity();
  std::memcpy(bad[1].grad.data() + 4 * 77, &infinity, 4);
  const std::vector<float> kept = MakeResidual(kElems, &random_);
  bad[2].e_in = kept;
  const std::vector<CarrierRank> results = Step(Delayed(1), &bad);
  EXPECT_TRUE(SameBits(results[2].e_out, kept));
  for (int64_t i = 0; i < kElems; ++i) {
    ASSERT_TRUE(std::isnan(GradAt(results[0].out, DType::kFloat32, i))) << "element " << i;
  }
  for (int r = 0; r < kRanks; ++r) cases[r].replicated = bad[r].replicated;
  const std::vector<EncodeCase> before = cases;
  ExpectExact(before, Step(Delayed(1), &cases)[0]);
  EXPECT_GT(std::fabs(Step(Delayed(1), &cases)[0].e_out[0]), 0) << "the second one counts";
}

TEST_P(DelayedStart, WithoutDelayThereIsNoCount) {
  EXPECT_EQ(MakeCodec(Delayed(0))->spec, MakeCodec(GetParam())->spec);
  const std::vector<int64_t> shape = {kRows, kCols};
  const TensorMeta meta = {.shape = shape, .elems = kElems};
  const auto bytes = [&](const std::string& spec) {
    return MakeCodec(spec)->carrier->ReplicatedBytes(meta, kRanks);
  };
  EXPECT_EQ(bytes(Delayed(0)), bytes(GetParam()));
  EXPECT_EQ(bytes(Delayed(1)), bytes(GetParam()) + 4);
  EXPECT_EQ(MakeCodec(Delayed(7))->spec, GetParam() + "(rank=4,start_step=7)");
  EXPECT_EQ(MakeCodec(Delayed(-1)).status().code(), gwInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(All, DelayedStart, ::testing::Values("powersgd", "acp"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace gradwire
