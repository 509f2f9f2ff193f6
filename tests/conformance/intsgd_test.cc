// What intsgd promises beside the laws of all carriers: the unit that follows from earlier sums,
// its error law, clipping, and a new scale where the past gives none.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "compress/kernels/dispatch.h"
#include "tests/conformance/carrier_world.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

constexpr int64_t kElems = 1003;  // with a tail on every SIMD target

float AverageOf(const std::vector<std::byte>& replicated) {
  float average;
  std::memcpy(&average, replicated.data(), sizeof average);
  return average;
}

std::vector<std::byte> StateOf(float average) {
  std::vector<std::byte> state(sizeof average);
  std::memcpy(state.data(), &average, sizeof average);
  return state;
}

class Intsgd : public ::testing::TestWithParam<std::string> {
 protected:
  std::vector<EncodeCase> Draw(int ranks, float average = 0) {
    std::vector<EncodeCase> cases;
    for (int r = 0; r < ranks; ++r) {
      EncodeCase c{.mode = ResidualMode::kNone,
                   .dither = {.seed = 5, .tensor = random_()},
                   .shape = {kElems},
                   .replicated = StateOf(average)};
      c.grad = MakeGrad(Kind::kGaussian, kElems, DType::kFloat32, &random_);
      cases.push_back(std::move(c));
    }
    return cases;
  }
  std::vector<CarrierRank> Step(const std::vector<EncodeCase>& cases) const {
    return RunCarriers(method(), cases, InOrder(static_cast<int>(cases.size())));
  }
  const CarrierMethod& method() const { return *codec_.carrier; }
  // Of the mean over ranks: |mean|^2.
  static double SquaredLengthOf(const CarrierRank& rank, int ranks) {
    double length2 = 0;
    for (int64_t i = 0; i < kElems; ++i)
      length2 += std::pow(GradAt(rank.out, DType::kFloat32, i) / ranks, 2);
    return length2;
  }

  const Codec codec_ = *MakeCodec(GetParam());
  RandomStream random_{TestSeed()};
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, TestSeedText()};
};

// r = |mean|^2 at first, then 0.9 r + 0.1 |mean|^2; unit = sqrt(2 n r / d).
TEST_P(Intsgd, TheUnitFollowsTheSumsOfThePast) {
  constexpr int kRanks = 3;
  std::vector<EncodeCase> cases = Draw(kRanks);
  double average = 0;
  for (int step = 0; step < 3; ++step) {
    const std::vector<CarrierRank> results = Step(cases);
    EXPECT_EQ(results[0].filled[0].size(), step == 0 ? 4u : 0u) << "only the first asks";
    const double now = SquaredLengthOf(results[0], kRanks);
    const double before = average;
    average = step == 0 ? now : 0.9 * average + 0.1 * now;
    EXPECT_NEAR(AverageOf(results[0].replicated), average, 1e-5 * average);
    for (int64_t i = 0; step > 0 && i < kElems; ++i) {
      const double levels =
          GradAt(results[0].out, DType::kFloat32, i) / std::sqrt(2 * kRanks * before / kElems);
      ASSERT_NEAR(levels, std::round(levels), 1e-3) << "element " << i << " of step " << step;
    }
    for (EncodeCase& c : cases) c.replicated = results[0].replicated;
  }
}

TEST_P(Intsgd, SendsAnIntegerAnElementAndAFlag) {
  const int64_t bytes = GetParam() == "intsgd(bits=32)" ? 4 : 1;
  const std::vector<CarrierRank> results = Step(Draw(2, /*average=*/1));
  EXPECT_EQ(results[0].stats.bytes, bytes * (kElems + 1));
  EXPECT_EQ(method().Round(1, {.elems = kElems}, 2, {}, {}).dtype,
            bytes == 1 ? DType::kInt8 : DType::kInt32);
}

// With a unit from the past, and of its own step: unbiased, and the variance of one element is the
// sum over ranks of unit^2 f (1 - f), f the fraction of p / unit.
TEST_P(Intsgd, ErrorsAreThoseOfRoundingAtRandom) {
  constexpr int kRanks = 2, kDraws = 2048;
  constexpr double kDeviations = 5.5;
  for (float average : {0.0f, 1000.0f}) {
    std::vector<EncodeCase> cases = Draw(kRanks, average);
    double unit = std::sqrt(2 * kRanks * average / kElems);
    if (average == 0) {
      float largest = 0;
      for (const EncodeCase& c : cases) {
        for (float p : c.Input()) largest = std::max(largest, std::fabs(p));
      }
      unit = largest / (GetParam() == "intsgd(bits=32)" ? 0x1p24 : 63);
    }
    std::vector<float> inputs[kRanks];
    for (int r = 0; r < kRanks; ++r) inputs[r] = cases[r].Input();
    std::vector<double> sum(kElems), sum2(kElems);
    for (int draw = 0; draw < kDraws; ++draw) {
      for (EncodeCase& c : cases) c.dither.step = static_cast<uint32_t>(draw);
      const CarrierRank result = Step(cases)[0];
      for (int64_t i = 0; i < kElems; ++i) {
        const double error =
            GradAt(result.out, DType::kFloat32, i) - double{inputs[0][i]} - double{inputs[1][i]};
        sum[i] += error;
        sum2[i] += error * error;
      }
    }
    double measured = 0, law = 0;
    for (int64_t i = 0; i < kElems; ++i) {
      double law_of_element = 0;
      for (const std::vector<float>& p : inputs) {
        const double x = p[i] / unit, f = x - std::floor(x);
        law_of_element += unit * unit * f * (1 - f);
      }
      const double bias = sum[i] / kDraws;
      // By Bernstein's inequality: an element near a multiple of the unit may be rounded to the
      // next one in none of the draws, or in several.
      const double rare = kDeviations * kDeviations / 3 * unit / kDraws;
      ASSERT_LE(std::fabs(bias),
                kDeviations * std::sqrt(law_of_element / kDraws) + rare + 1e-5 * unit + 1e-6)
          << i;
      measured += sum2[i] / kDraws - bias * bias;
      law += law_of_element;
    }
    if (unit > 1e-3) {  // else the additions of float32 round as much
      EXPECT_NEAR(measured, law, 0.02 * law) << "average " << average;
    }
  }
}

// 127 / n levels of int8, as many of int32 as a float holds.
TEST_P(Intsgd, ClipsWhatThePastDidNotExpect) {
  constexpr int kRanks = 3;
  const double most = GetParam() == "intsgd(bits=32)" ? 0x1p24 : 42;
  std::vector<EncodeCase> cases = Draw(kRanks, /*average=*/1);
  const auto unit = static_cast<float>(std::sqrt(2.0 * kRanks / kElems));
  for (EncodeCase& c : cases) {
    c.mode = ResidualMode::kSent;
    c.e_in.resize(kElems);
    c.e_in[7] = 1e12f;
  }
  for (const SimdTarget target : SupportedTargets()) {
    SCOPED_TRACE(Name(target));
    ASSERT_TRUE(ForceTargetForTest(Name(target)));
    const std::vector<CarrierRank> results = Step(cases);
    ForceTargetForTest("");
    EXPECT_FLOAT_EQ(GradAt(results[1].out, DType::kFloat32, 7),
                    static_cast<float>(kRanks * most * unit));
    EXPECT_GT(AverageOf(results[0].replicated), 0.099 * std::pow(most * unit, 2)) << "now it does";
  }
}

// Whatever somebody has saved, and after so many steps of zeros that nothing is left of the past.
TEST_P(Intsgd, AsksForAScaleWhereThePastGivesNone) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (float average : {0.0f, -1.0f, infinity, std::numeric_limits<float>::quiet_NaN(), 1e-44f}) {
    SCOPED_TRACE(average);
    std::vector<EncodeCase> cases = Draw(2, average);
    const std::vector<CarrierRank> results = Step(cases);
    EXPECT_EQ(results[0].filled[0].size(), 4u);
    const double length2 = SquaredLengthOf(results[0], 2);
    EXPECT_GT(length2, 0);
    EXPECT_NEAR(AverageOf(results[0].replicated), length2, 1e-5 * length2);
  }
}

TEST_P(Intsgd, AStepThatIsNotFiniteLeavesThePast) {
  std::vector<EncodeCase> cases = Draw(2, /*average=*/3);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(cases[1].grad.data(), &nan, 4);
  for (const CarrierRank& rank : Step(cases)) {
    EXPECT_EQ(AverageOf(rank.replicated), 3);
    EXPECT_TRUE(std::isnan(GradAt(rank.out, DType::kFloat32, kElems - 1)));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Intsgd, ::testing::Values("intsgd", "intsgd(bits=32)"),
                         [](const auto& info) { return "n" + std::to_string(info.index); });

TEST(IntsgdRanks, MoreThanAByteCanAddAreRefused) {
  const Codec bytes = *MakeCodec("intsgd");
  EXPECT_TRUE(bytes.carrier->Check({.elems = 1}, 127).ok());
  const Status status = bytes.carrier->Check({.elems = 1}, 128);
  EXPECT_EQ(status.code(), gwInvalidArgument);
  EXPECT_NE(status.ToString().find("at most 127 ranks"), std::string::npos) << status.ToString();
  EXPECT_TRUE(MakeCodec("intsgd(32)")->carrier->Check({.elems = 1}, 100'000).ok());
}

// The count of ranks that are not finite is a sum like the others.
TEST(IntsgdRanks, RefusesWhatTheRanksCannotHaveSent) {
  std::vector<EncodeCase> cases(3);
  for (EncodeCase& c : cases) {
    c.grad.resize(4 * kElems);
    c.shape = {kElems};
  }
  const auto with = [&](size_t at, int value) {
    return RunCarriers(*MakeCodec("intsgd")->carrier, cases, InOrder(3), 1.0f,
                       [&](int round, auto* sum) {
                         if (round == 1) (*sum)[at] = static_cast<std::byte>(value);
                       })[0]
        .absorbed.code();
  };
  for (size_t at : {size_t{3}, size_t{kElems - 1}}) {
    EXPECT_EQ(with(at, 126), gwSuccess);
    EXPECT_EQ(with(at, -126), gwSuccess);
    EXPECT_EQ(with(at, 127), gwDataCorrupt);
    EXPECT_EQ(with(at, -127), gwDataCorrupt);
  }
  EXPECT_EQ(with(kElems, 3), gwSuccess);
  EXPECT_EQ(with(kElems, 4), gwDataCorrupt);
  EXPECT_EQ(with(kElems, -1), gwDataCorrupt);
}

}  // namespace
}  // namespace gradwire
