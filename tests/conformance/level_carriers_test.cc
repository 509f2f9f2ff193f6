// What levels under scales that all ranks share promise beside the laws of all carriers, for every
// spec of `qsgd(sum=carrier)` and `terngrad` of the registry: the law of their errors as
// docs/algorithms.md has it, and with feedback a contraction over all ranks together.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "compress/kernels/dispatch.h"
#include "tests/conformance/carrier_world.h"
#include "tests/lib/sanitized.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

using Inputs = std::vector<std::vector<float>>;  // by rank

// What the text of a spec promises.
struct Promise {
  int levels = 1;  // either way
  double clip = 0;
  bool nearest = false;
};

Promise PromiseOf(const std::string& spec) {
  const SpecText text = *ParseSpecText(MakeCodec(spec)->spec);
  Promise promise;
  for (const auto& [key, value] : text.args) {
    if (key == "bits") promise.levels = (1 << (std::stoi(value) - 1)) - 1;
    if (key == "clip") promise.clip = std::stod(value);
    if (key == "feedback") promise.nearest = value == "on";
  }
  return promise;
}

double Square(double v) { return v * v; }

double EnergyOf(const std::vector<float>& values, size_t first, size_t end) {
  double energy = 0;
  for (size_t i = first; i < end; ++i) energy += Square(values[i]);
  return energy;
}

// max over ranks of min(max |p|, c rms(p)).
double ScaleOf(const Inputs& inputs, const Promise& promise, size_t first, size_t end) {
  double scale = 0;
  for (const std::vector<float>& p : inputs) {
    double own = 0;
    for (size_t i = first; i < end; ++i) own = std::max(own, std::fabs(double{p[i]}));
    const double rms = std::sqrt(EnergyOf(p, first, end) / static_cast<double>(end - first));
    if (promise.clip > 0) own = std::min(own, promise.clip * rms);
    scale = std::max(scale, own);
  }
  return scale;
}

// Of the sum of one element, over the draws.
struct Law {
  double mean = 0, variance = 0;
  double level = 0;  // its size
};

std::vector<Law> LawsOf(const Inputs& inputs, const Promise& promise, int64_t block) {
  std::vector<Law> laws(inputs[0].size());
  for (size_t first = 0; first < laws.size(); first += static_cast<size_t>(block)) {
    const size_t end = std::min(laws.size(), first + static_cast<size_t>(block));
    const double scale = ScaleOf(inputs, promise, first, end);
    for (size_t i = first; i < end; ++i) {
      laws[i].level = scale / promise.levels;
      for (const std::vector<float>& p : inputs) {
        const double q = std::clamp<double>(p[i], -scale, scale);
        const double at = scale > 0 ? q / laws[i].level : 0, up = at - std::floor(at);
        laws[i].mean += q;
        laws[i].variance += Square(laws[i].level) * up * (1 - up);
      }
    }
  }
  return laws;
}

class LevelCarriers : public ::testing::TestWithParam<CodecOnTarget> {
 protected:
  LevelCarriers() { EXPECT_TRUE(ForceTargetForTest(GetParam().target)); }
  ~LevelCarriers() override { ForceTargetForTest(""); }

  const CarrierMethod& method() const { return *codec_.carrier; }
  int64_t Block(int ranks) const { return method().QuantumElems({}, ranks); }

  std::vector<EncodeCase> CasesOf(const Inputs& inputs) {
    const Dither dither = {.seed = static_cast<uint32_t>(random_()), .tensor = random_()};
    std::vector<EncodeCase> cases;
    for (const std::vector<float>& p : inputs) {
      EncodeCase c{.mode = promise_.nearest ? ResidualMode::kSeparate : ResidualMode::kNone,
                   .dither = dither};
      c.grad.resize(4 * p.size());
      std::memcpy(c.grad.data(), p.data(), c.grad.size());
      c.e_in.resize(p.size());
      cases.push_back(std::move(c));
    }
    return cases;
  }
  std::vector<CarrierRank> Step(const std::vector<EncodeCase>& cases) const {
    return RunCarriers(method(), cases, InOrder(static_cast<int>(cases.size())));
  }

  struct Moments {
    std::vector<double> sum, sum2;  // of what each element's sum is off its mean
  };
  Moments Measure(const Inputs& inputs, const std::vector<Law>& laws, int draws) {
    Moments m{.sum = std::vector<double>(laws.size()), .sum2 = std::vector<double>(laws.size())};
    auto cases = CasesOf(inputs);
    for (int draw = 0; draw < draws; ++draw) {
      for (EncodeCase& c : cases) c.dither.step = static_cast<uint32_t>(draw);
      const std::vector<std::byte> out = Step(cases)[0].out;
      for (size_t i = 0; i < laws.size(); ++i) {
        const double error = GradAt(out, DType::kFloat32, static_cast<int64_t>(i)) - laws[i].mean;
        m.sum[i] += error;
        m.sum2[i] += Square(error);
      }
    }
    return m;
  }

  // Ranks whose values differ in size, so that they share a scale that is not their own.
  Inputs Draw(Kind kind, int ranks, int64_t elems) {
    Inputs inputs;
    for (int r = 0; r < ranks; ++r) {
      const auto grad = MakeGrad(kind, elems, DType::kFloat32, &random_);
      std::vector<float> p(static_cast<size_t>(elems));
      for (int64_t i = 0; i < elems; ++i) {
        p[i] = std::ldexp(GradAt(grad, DType::kFloat32, i), -r);
      }
      inputs.push_back(std::move(p));
    }
    return inputs;
  }

  const Codec codec_ = *MakeCodec(GetParam().spec);
  const Promise promise_ = PromiseOf(GetParam().spec);
  RandomStream random_{TestSeed()};
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, TestSeedText()};
};

constexpr Kind kVaried[] = {Kind::kGaussian, Kind::kNegative, Kind::kSparse, Kind::kSorted};
constexpr double kDeviations = 5.5;

// The mean of every element, so that a rounding that leans one way is seen, and the variance of
// all, which tells whether ranks and elements draw for themselves.
TEST_P(LevelCarriers, ErrorsAreThoseOfRoundingAtRandom) {
  if (promise_.nearest) return;
  constexpr int kDraws = kSanitized ? 256 : 1024;
  for (int n : {1, 3}) {
    for (Kind kind : kVaried) {
      SCOPED_TRACE(::testing::Message() << n << " ranks, " << Name(kind));
      const Inputs inputs = Draw(kind, n, Block(n) + 77);
      const std::vector<Law> laws = LawsOf(inputs, promise_, Block(n));
      const Moments measured = Measure(inputs, laws, kDraws);
      double energy = 0, variance = 0, bound = 0, fourth = 0, largest = 0;
      for (size_t i = 0; i < laws.size(); ++i) {
        const double level = laws[i].level, all = n * level;  // an error is less than that
        // By Bernstein's inequality: an element near a level may be rounded to the next one in none
        // of the draws, or in several. Chances are multiples of 2^-16.
        const double rare = Square(kDeviations) / 3 / kDraws * level + all * 0x1p-16;
        ASSERT_LE(std::fabs(measured.sum[i] / kDraws),
                  kDeviations * std::sqrt(laws[i].variance / kDraws) + rare)
            << "element " << i;
        energy += measured.sum2[i] / kDraws;
        variance += laws[i].variance;
        bound += n * Square(level) / 4;
        fourth += Square(all) * laws[i].variance;
        largest = std::max(largest, Square(all));
      }
      const double off = kDeviations * std::sqrt(fourth / kDraws) +
                         Square(kDeviations) / 3 / kDraws * largest + 1e-4 * bound;
      EXPECT_NEAR(energy, variance, off);
      EXPECT_LE(energy, bound + off);
    }
  }
}

TEST_P(LevelCarriers, NearestIsWithinHalfALevelOnEveryRank) {
  if (!promise_.nearest) return;
  for (int n : {1, 3}) {
    for (Kind kind : kVaried) {
      SCOPED_TRACE(::testing::Message() << n << " ranks, " << Name(kind));
      const Inputs inputs = Draw(kind, n, 2 * Block(n) + 77);
      const std::vector<Law> laws = LawsOf(inputs, promise_, Block(n));
      const auto ranks = Step(CasesOf(inputs));
      for (size_t i = 0; i < laws.size(); ++i) {
        const double half = 0.50001 * laws[i].level;
        const double out = GradAt(ranks[0].out, DType::kFloat32, static_cast<int64_t>(i));
        ASSERT_NEAR(out, laws[i].mean, n * half) << "element " << i;
        for (int r = 0; r < n; ++r) {
          const double kept = std::fabs(ranks[r].e_out[i]);
          ASSERT_LE(kept, half) << "rank " << r << ", element " << i;
          ASSERT_LE(kept, 1.00001 * std::fabs(inputs[r][i])) << "rank " << r << ", element " << i;
        }
      }
    }
  }
}

// (1 - delta), of a block of all ranks.
double KeptAtMost(const Promise& promise, int ranks, int64_t elems) {
  const double levels2 = 4 * Square(promise.levels);
  return 1 - levels2 / (levels2 + static_cast<double>(ranks * elems) - 1);
}

TEST_P(LevelCarriers, FeedbackContractsOverAllRanks) {
  if (codec_.feedback == Feedback::kOff) return;
  EXPECT_TRUE(method().traits().contractive);
  for (int n : {1, 2, 5}) {
    const int64_t block = Block(n);
    for (Kind kind : {Kind::kGaussian, Kind::kOneHot, Kind::kSparse, Kind::kConstant, Kind::kSorted,
                      Kind::kHuge, Kind::kMixedSign, Kind::kZeros}) {
      SCOPED_TRACE(::testing::Message() << n << " ranks, " << Name(kind));
      const Inputs inputs = Draw(kind, n, 3 * block + 77);
      const auto ranks = Step(CasesOf(inputs));
      for (size_t first = 0; first < inputs[0].size(); first += static_cast<size_t>(block)) {
        const size_t end = std::min(inputs[0].size(), first + static_cast<size_t>(block));
        double given = 0, kept = 0;
        for (int r = 0; r < n; ++r) {
          given += EnergyOf(inputs[r], first, end);
          kept += EnergyOf(ranks[r].e_out, first, end);
        }
        const double most = KeptAtMost(promise_, n, static_cast<int64_t>(end - first));
        ASSERT_LE(kept, most * given * (1 + 1e-5)) << "block at " << first;
      }
    }
  }
}

// The bound is reached: one rank's element sets the scale, all others are just below half a level.
// And a rank that has none but those keeps all it has.
TEST_P(LevelCarriers, ARankAloneNeedNotContract) {
  if (codec_.feedback == Feedback::kOff) return;
  for (int n : {2, 5}) {
    const int64_t block = Block(n);
    const auto below = static_cast<float>(0.499 / promise_.levels);
    Inputs inputs(static_cast<size_t>(n), std::vector<float>(static_cast<size_t>(block), below));
    inputs[0][7] = -1;
    const auto ranks = Step(CasesOf(inputs));
    double given = 0, kept = 0;
    for (int r = 0; r < n; ++r) {
      if (r > 0) {
        EXPECT_EQ(ranks[r].e_out, inputs[r]);
      }
      given += EnergyOf(inputs[r], 0, inputs[r].size());
      kept += EnergyOf(ranks[r].e_out, 0, inputs[r].size());
    }
    EXPECT_LE(kept, KeptAtMost(promise_, n, block) * given);
    EXPECT_NEAR(kept, KeptAtMost(promise_, n, block) * given, 0.01 * given);
  }
}

std::vector<CodecOnTarget> LevelCarriersOnTargets() {
  std::vector<CodecOnTarget> all = AllCarriersOnTargets();
  std::erase_if(all, [](const CodecOnTarget& c) {
    const std::string name = ParseSpecText(c.spec)->name;
    return name != "qsgd" && name != "terngrad";
  });
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, LevelCarriers, ::testing::ValuesIn(LevelCarriersOnTargets()),
                         TestName);

}  // namespace
}  // namespace gradwire
