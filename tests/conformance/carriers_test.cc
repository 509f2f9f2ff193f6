// Laws every carrier method keeps, on every SIMD target: bytes equal to the reference's, the same
// result for every order of additions where carriers are integers, conservation, non-finite values,
// unbiasedness, damaged sums. Where the tensor is the unit, it is one block.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include "collectives/reduce/reduce.h"
#include "compress/kernels/dispatch.h"
#include "tests/conformance/carrier_world.h"
#include "tests/lib/sanitized.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

class CarriersTest : public ::testing::TestWithParam<CodecOnTarget> {
 protected:
  CarriersTest()
      : codec_(*MakeCodec(GetParam().spec)),
        random_(TestSeed()),
        trace_(__FILE__, __LINE__, TestSeedText()) {
    EXPECT_TRUE(ForceTargetForTest(GetParam().target));
  }
  ~CarriersTest() override { ForceTargetForTest(""); }

  const CarrierMethod& method() const { return *codec_.carrier; }
  const CodecTraits& traits() const { return method().traits(); }
  bool OfWholeTensors() const { return method().unit() == CarrierUnit::kTensor; }
  int64_t Quantum(int ranks) const { return method().QuantumElems({}, ranks); }
  bool Takes(const EncodeCase& c, int ranks) const {
    return method().Check({.shape = c.shape, .elems = c.elems(), .dtype = c.dtype}, ranks).ok();
  }
  std::span<const ResidualMode> Modes() const { return ModesOf(codec_.feedback); }
  ResidualMode AnyMode() { return Modes()[random_.Below(Modes().size())]; }
  // With a residual.
  ResidualMode Residual() const {
    return codec_.feedback == Feedback::kOn ? ResidualMode::kSeparate : ResidualMode::kSent;
  }
  // A round of integers: their sums are exact, and not all of them can be sums.
  bool HasRoundOf(DType dtype) const {
    constexpr int64_t kShape[] = {1, 1};
    bool has = false;
    for (int round = 0; round < method().rounds(); ++round) {
      has |= method().Round(round, {.shape = kShape, .elems = 1}, 2, {}, {}).dtype == dtype;
    }
    return has;
  }
  std::vector<int64_t> Sizes(int ranks) const {
    std::set<int64_t> sizes(std::begin(kSmallSizes), std::end(kSmallSizes));
    const int64_t quantum = Quantum(ranks);
    sizes.insert({quantum - 1, quantum, quantum + 1, 3 * quantum + 5});
    return {sizes.begin(), sizes.end()};
  }

  // A matrix where the number of elements allows it.
  static std::vector<int64_t> ShapeOf(int64_t elems) {
    const int64_t rows = std::gcd(elems, 32);
    return rows > 1 ? std::vector{rows, elems / rows} : std::vector{elems};
  }

  // Cases of all ranks; those of `kind` among Gaussian ones where it is not the same for all.
  std::vector<EncodeCase> Cases(Kind kind, int ranks, int64_t elems, DType dtype,
                                ResidualMode mode) {
    const Dither dither = {
        .seed = static_cast<uint32_t>(random_()),
        .tensor = random_(),
        .step = static_cast<uint32_t>(random_()),
        .first_elem =
            OfWholeTensors() ? 0 : static_cast<int64_t>(random_.Below(1u << 20)) * Quantum(ranks)};
    const bool local_in_place = random_.Below(2) == 0;
    const float in_scale = std::ldexp(1.0f, -static_cast<int>(random_.Below(12)));
    std::vector<EncodeCase> cases;
    for (int r = 0; r < ranks; ++r) {
      EncodeCase c{.dtype = dtype,
                   .mode = mode,
                   .in_scale = in_scale,
                   .dither = dither,
                   .shape = ShapeOf(elems),
                   .local_in_place = local_in_place};
      c.grad = MakeGrad(r % 2 == 0 ? kind : Kind::kGaussian, elems, dtype, &random_);
      c.e_in = MakeResidual(elems, &random_);
      cases.push_back(std::move(c));
    }
    return cases;
  }

  // A step of the active target's and of the reference's; what it leaves for the next is then in
  // the cases.
  void CheckAgainstReference(std::vector<EncodeCase>* cases) {
    const SumOrder order = InOrder(static_cast<int>(cases->size()));
    const auto actual = RunCarriers(method(), *cases, order, 0.375f);
    ForceTargetForTest("scalar");
    const auto expected = RunCarriers(method(), *cases, order, 0.375f);
    ForceTargetForTest(GetParam().target);
    ASSERT_NO_FATAL_FAILURE(CheckSame(expected, actual));
    for (const CarrierRank& rank : actual) {
      ASSERT_TRUE(rank.absorbed.ok()) << rank.absorbed.ToString();
      ASSERT_EQ(rank.out, actual[0].out);
      ASSERT_EQ(rank.replicated, actual[0].replicated);
    }
    for (size_t r = 0; r < cases->size(); ++r) {
      (*cases)[r].replicated = actual[r].replicated;
      (*cases)[r].local = actual[r].local;
    }
  }

  // The output where the last round's carriers are this one and those of ranks that have nothing.
  std::vector<std::byte> DecodeAlone(const std::vector<EncodeCase>& cases,
                                     const std::vector<std::byte>& carrier) const {
    const auto n = static_cast<int>(cases.size());
    std::vector<EncodeCase> zeros = cases;
    for (EncodeCase& c : zeros) std::fill(c.grad.begin(), c.grad.end(), std::byte{0});
    const auto nothing = RunCarriers(method(), zeros, InOrder(n));
    const int last = method().rounds() - 1;
    const TensorMeta meta = {.shape = cases[0].shape, .elems = cases[0].elems()};
    const RoundSpec spec = method().Round(last, meta, n, {}, {});
    const auto damage = [&](int round, std::vector<std::byte>* sum) {
      if (round != last) return;
      *sum = carrier;
      if (spec.dtype == DType::kFloat32) return;  // zeros, of the elements that all agreed on
      for (int r = 1; r < n; ++r) AddTo(sum, nothing[r].filled[last], spec);
    };
    return RunCarriers(method(), cases, InOrder(n), 1.0f, damage)[0].out;
  }
  static void AddTo(std::vector<std::byte>* sum, const std::vector<std::byte>& carrier,
                    const RoundSpec& spec) {
    const auto bytes = static_cast<int64_t>(sum->size());
    ASSERT_EQ(carrier.size(), sum->size());
    ReduceInto(spec.dtype, spec.op, {sum->data(), bytes}, {carrier.data(), bytes},
               {sum->data(), bytes});
  }

  const Codec codec_;
  RandomStream random_;
  ::testing::ScopedTrace trace_;
};

constexpr int kRankCounts[] = {1, 2, 3, 5, 8, 16};

TEST_P(CarriersTest, SameBytesAsTheReferenceOnAllRanks) {
  for (int n : kRankCounts) {
    for (Kind kind : kKinds) {
      for (int64_t elems : Sizes(n)) {
        if (kSanitized && random_.Below(32) != 0) continue;
        const DType dtype = kGradTypes[random_.Below(3)];
        const ResidualMode mode = AnyMode();
        SCOPED_TRACE(::testing::Message() << n << " ranks, " << Name(kind) << ", " << elems);
        auto cases = Cases(kind, n, elems, dtype, mode);
        if (!Takes(cases[0], n)) continue;
        ASSERT_NO_FATAL_FAILURE(CheckAgainstReference(&cases));
        if (cases[0].replicated.empty() && cases[0].local.empty()) continue;
        ASSERT_NO_FATAL_FAILURE(CheckAgainstReference(&cases)) << "second step";
      }
    }
  }
}

// Rows of an embedding that no rank, or one alone, has touched: zeros of either sign.
TEST_P(CarriersTest, SameBytesAsTheReferenceWhereBlocksAreZero) {
  for (int n : kRankCounts) {
    const int64_t block = OfWholeTensors() ? 256 : Quantum(n), elems = 6 * block + 19;
    for (ResidualMode mode : Modes()) {
      if (kSanitized && random_.Below(4) != 0) continue;
      SCOPED_TRACE(::testing::Message() << n << " ranks");
      auto cases = Cases(Kind::kZeros, n, elems, DType::kFloat32, mode);
      if (!Takes(cases[0], n)) continue;
      for (int r = 0; r < n; ++r) {
        auto* grad = reinterpret_cast<float*>(cases[r].grad.data());
        for (int64_t i = 0; i < elems; ++i) {
          const bool touched = (r == 0 && i / block == 1) || i / block == 4;
          const float sign = random_.Below(2) == 0 ? 1.0f : -1.0f;
          grad[i] = sign * (touched ? static_cast<float>(random_.Unit()) : 0.0f);
          cases[r].e_in[i] = i / block == 5 ? cases[r].e_in[i] : sign * 0.0f;
        }
      }
      ASSERT_NO_FATAL_FAILURE(CheckAgainstReference(&cases));
    }
  }
}

TEST_P(CarriersTest, IntegersAddInAnyOrder) {
  for (int n = 2; n <= 16; n += kSanitized ? 7 : 1) {
    const auto cases = Cases(Kind::kGaussian, n, 1000, DType::kFloat32, Residual());
    if (HasRoundOf(DType::kFloat32)) continue;
    SumOrder order = InOrder(n);
    const auto expected = RunCarriers(method(), cases, order);
    std::shuffle(order.begin(), order.end(), random_);
    ASSERT_NO_FATAL_FAILURE(CheckSame(expected, RunCarriers(method(), cases, order)));
  }
}

// All ranks at the largest level of one sign, its neighbours at the largest of the other: no sum
// reaches the next field, and 127 ranks are all that bytes can add.
TEST_P(CarriersTest, AllRanksAtTheMaximumStayInTheirFields) {
  if (HasRoundOf(DType::kFloat32) || method().Gathers()) return;
  constexpr int64_t kElems = 700;
  for (int n : {1, 2, 16, 65, 127}) {
    std::vector<float> grad(kElems);
    for (float& v : grad) v = random_.Below(2) == 0 ? 1.0f : -1.0f;
    EncodeCase c{.mode = ResidualMode::kNone, .shape = {kElems}};
    c.grad.resize(4 * kElems);
    std::memcpy(c.grad.data(), grad.data(), c.grad.size());
    const std::vector<EncodeCase> cases(static_cast<size_t>(n), c);
    for (const CarrierRank& rank : RunCarriers(method(), cases, InOrder(n))) {
      ASSERT_TRUE(rank.absorbed.ok()) << rank.absorbed.ToString();
      for (int64_t i = 0; i < kElems; ++i) {
        ASSERT_NEAR(GradAt(rank.out, DType::kFloat32, i), n * double{grad[i]}, 1e-6 * n)
            << n << " ranks, element " << i;
      }
    }
  }
}

// sum p = out + sum e'. `rounding` is of elements that are made of the whole tensor, as those of a
// product of factors.
void CheckConservation(const std::vector<EncodeCase>& cases,
                       const std::vector<CarrierRank>& results, double rounding) {
  const std::vector<std::vector<float>> inputs = InputsOf(cases);
  for (size_t i = 0; i < results[0].e_out.size(); ++i) {
    double in = 0, held = GradAt(results[0].out, DType::kFloat32, static_cast<int64_t>(i));
    double size = 0;
    for (size_t r = 0; r < cases.size(); ++r) {
      const double p = inputs[r][i];
      in += p;
      size += std::fabs(p) + std::fabs(results[r].e_out[i]);
      held += results[r].e_out[i];
    }
    ASSERT_NEAR(held, in, 1e-5 * (size + std::fabs(held)) + rounding) << "element " << i;
  }
}

double LargestInput(const std::vector<EncodeCase>& cases) {
  double largest = 0;
  for (const EncodeCase& c : cases) {
    for (float p : c.Input()) largest = std::max(largest, std::fabs(double{p}));
  }
  return largest;
}

// dec(sum enc) = sum dec(enc) but for the rounding of floats: what a rank has put into a sum comes
// out of it whoever else is there. An integer that were off by one would be off by far more.
TEST_P(CarriersTest, WhatRanksSendDecodesToItsShareOfTheSum) {
  if (!traits().estimates_sum || method().Gathers()) return;
  constexpr int64_t kElems = 1500;
  for (int n : {2, 3, 8}) {
    const auto cases = Cases(Kind::kGaussian, n, kElems, DType::kFloat32, ResidualMode::kNone);
    const auto together = RunCarriers(method(), cases, InOrder(n));
    std::vector<double> sum(kElems), size(kElems);
    for (int r = 0; r < n; ++r) {
      const auto out = DecodeAlone(cases, together[r].filled.back());
      for (size_t i = 0; i < sum.size(); ++i) {
        const double share = GradAt(out, DType::kFloat32, static_cast<int64_t>(i));
        sum[i] += share;
        size[i] += std::fabs(share);
      }
    }
    const double rounding = OfWholeTensors() ? 1e-6 * n * LargestInput(cases) : 0;
    for (size_t i = 0; i < sum.size(); ++i) {
      const double out = GradAt(together[0].out, DType::kFloat32, static_cast<int64_t>(i));
      ASSERT_NEAR(out, sum[i], 0x1p-22 * n * size[i] + rounding) << n << " ranks, element " << i;
    }
  }
}

// And in place the same bits: residual over residual, local state over local state, output over
// gradient.
TEST_P(CarriersTest, KeepsBackWhatItDoesNotSend) {
  for (int n : kRankCounts) {
    for (Kind kind : {Kind::kGaussian, Kind::kOneHot, Kind::kSparse, Kind::kConstant, Kind::kSorted,
                      Kind::kZeros, Kind::kTiny}) {
      if (kSanitized && random_.Below(4) != 0) continue;
      SCOPED_TRACE(::testing::Message() << n << " ranks, " << Name(kind));
      auto cases = Cases(kind, n, 1500, DType::kFloat32, Residual());
      for (EncodeCase& c : cases) c.local_in_place = false;
      const auto results = RunCarriers(method(), cases, InOrder(n));
      if (codec_.feedback == Feedback::kOn) {
        const double rounding = OfWholeTensors() ? 1e-6 * n * LargestInput(cases) : 0;
        ASSERT_NO_FATAL_FAILURE(CheckConservation(cases, results, rounding));
      }
      for (EncodeCase& c : cases) {
        if (KeepsBack(c.mode)) c.mode = ResidualMode::kInPlace;
        c.local_in_place = true;
        c.out_over_grad = true;
      }
      ASSERT_NO_FATAL_FAILURE(CheckSame(results, RunCarriers(method(), cases, InOrder(n))));
    }
  }
}

// What is lost or kept back is what a rank alone does not get, and is told so.
TEST_P(CarriersTest, StatisticsTellTheErrorOfARank) {
  if (traits().lossless || method().KeepsLocal()) return;  // local state is rounded in their place
  for (Kind kind : {Kind::kGaussian, Kind::kNegative, Kind::kSparse, Kind::kSorted, Kind::kZeros,
                    Kind::kOneHot, Kind::kConstant, Kind::kHuge, Kind::kTiny, Kind::kSubnormal,
                    Kind::kMaximum, Kind::kMixedSign}) {
    SCOPED_TRACE(Name(kind));
    const auto cases = Cases(kind, 1, 1500, DType::kFloat32, Residual());
    if (!Takes(cases[0], 1)) continue;
    const CarrierRank rank = RunCarriers(method(), cases, InOrder(1))[0];
    if (rank.stats.nonfinite > 0) continue;  // sums of the largest could overflow in low rank
    double p2 = 0, error2 = 0, absmax = 0;
    const std::vector<float> p = cases[0].Input();
    for (size_t i = 0; i < p.size(); ++i) {
      const double out = GradAt(rank.out, DType::kFloat32, static_cast<int64_t>(i));
      p2 += double{p[i]} * p[i];
      error2 += std::pow(p[i] - out, 2);
      absmax = std::max(absmax, std::fabs(double{p[i]}));
    }
    EXPECT_NEAR(rank.stats.sum_p2, p2, 1e-5 * p2);
    EXPECT_NEAR(rank.stats.sum_err2, error2, 1e-4 * error2 + 1e-6 * p2);
    EXPECT_EQ(rank.stats.absmax, absmax);
  }
}

int SignOf(double v) { return static_cast<int>(v > 0) - static_cast<int>(v < 0); }

// What neither estimates the sum nor keeps anything back is a vote: the result is the majority of
// the signs of what each rank has, residuals of an earlier codec included.
TEST_P(CarriersTest, TheMajorityDecidesWhereTheSumIsNotEstimated) {
  if (traits().estimates_sum || codec_.feedback == Feedback::kOn) return;
  constexpr float kScale = 0.375f;
  for (int n : kRankCounts) {
    for (Kind kind : {Kind::kGaussian, Kind::kSparse, Kind::kZeros, Kind::kMixedSign,
                      Kind::kSubnormal, Kind::kMaximum}) {
      // A share of them in an average is a zero.
      if (method().KeepsLocal() && kind == Kind::kSubnormal) continue;
      SCOPED_TRACE(::testing::Message() << n << " ranks, " << Name(kind));
      const auto cases = Cases(kind, n, 1500, DType::kFloat32, AnyMode());
      std::vector<int> votes(1500);
      for (const EncodeCase& c : cases) {
        const std::vector<float> p = c.Input();
        for (size_t i = 0; i < votes.size(); ++i) votes[i] += SignOf(p[i]);
      }
      for (const CarrierRank& rank : RunCarriers(method(), cases, InOrder(n), kScale)) {
        for (size_t i = 0; i < votes.size(); ++i) {
          ASSERT_EQ(GradAt(rank.out, DType::kFloat32, static_cast<int64_t>(i)),
                    static_cast<float>(SignOf(votes[i]) * n) * kScale)
              << "element " << i;
        }
      }
    }
  }
}

// One infinity on one rank: its block is NaN on all, and nobody folds its gradient in, neither into
// the residual nor into what the method keeps.
TEST_P(CarriersTest, NonFiniteBlocksKeepTheirResiduals) {
  if (traits().lossless) return;
  constexpr int kRanks = 3;
  const int64_t block = OfWholeTensors() ? 1024 : Quantum(kRanks), elems = 4 * block;
  auto cases = Cases(Kind::kGaussian, kRanks, elems, DType::kFloat32, Residual());
  for (EncodeCase& c : cases) {
    if (method().KeepsLocal()) c.local = MakeResidual(elems, &random_);
  }
  const float infinity = std::numeric_limits<float>::infinity();
  std::memcpy(cases[1].grad.data() + 4 * (block + 7), &infinity, 4);
  const auto results = RunCarriers(method(), cases, InOrder(kRanks));
  EXPECT_EQ(results[1].stats.nonfinite, 1u);
  EXPECT_EQ(results[0].stats.nonfinite, 0u);
  for (int64_t i = 0; i < elems; ++i) {
    const bool hit = OfWholeTensors() || i / block == 1;
    ASSERT_EQ(std::isnan(GradAt(results[0].out, DType::kFloat32, i)), hit) << i;
    for (int r = 0; hit && r < kRanks; ++r) {
      if (KeepsBack(cases[r].mode)) {
        ASSERT_EQ(results[r].e_out[i], cases[r].e_in[i]) << "rank " << r << " at " << i;
      }
      if (cases[r].local.empty()) continue;
      ASSERT_EQ(results[r].local[i], cases[r].local[i]) << "rank " << r << " at " << i;
    }
  }
}

// Where another rank is not finite a finite one's energy counts with its error or not at all: the
// ratio of both, over many steps, is what the ledger and the controller go by.
TEST_P(CarriersTest, EnergyAndErrorAreOfTheSameSteps) {
  if (traits().lossless) return;
  constexpr int kRanks = 3;
  const int64_t elems = OfWholeTensors() ? 1024 : Quantum(kRanks);
  auto cases = Cases(Kind::kGaussian, kRanks, elems, DType::kFloat32, ResidualMode::kSeparate);
  const auto finite = RunCarriers(method(), cases, InOrder(kRanks));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(cases[1].grad.data(), &nan, sizeof(nan));
  const auto results = RunCarriers(method(), cases, InOrder(kRanks));
  EXPECT_EQ(results[1].stats.sum_p2, 0);
  EXPECT_EQ(results[1].stats.sum_err2, 0);
  const EncodeStats &all = finite[0].stats, &now = results[0].stats;
  EXPECT_GT(all.sum_p2, 0);
  if (now.sum_p2 > 0) {
    EXPECT_NEAR(now.sum_p2, all.sum_p2, 1e-5 * all.sum_p2);
    EXPECT_NEAR(now.sum_err2, all.sum_err2, 0.1 * all.sum_p2);
  } else {
    EXPECT_EQ(now.sum_err2, 0);
  }
}

TEST_P(CarriersTest, IsUnbiasedIfItSaysSo) {
  if (!traits().unbiased || traits().lossless) return;
  constexpr int kRanks = 4, kDraws = kSanitized ? 256 : 2048;
  constexpr int64_t kElems = 600;
  constexpr double kDeviations = 5.5;
  auto cases = Cases(Kind::kGaussian, kRanks, kElems, DType::kFloat32, ResidualMode::kNone);
  std::vector<double> sum(kElems), sum2(kElems), truth(kElems);
  double largest = 0;
  for (const std::vector<float>& p : InputsOf(cases)) {
    for (size_t i = 0; i < truth.size(); ++i) truth[i] += p[i];
  }
  for (int draw = 0; draw < kDraws; ++draw) {
    for (EncodeCase& c : cases) c.dither.step = static_cast<uint32_t>(draw);
    const auto out = RunCarriers(method(), cases, InOrder(kRanks))[0].out;
    for (size_t i = 0; i < truth.size(); ++i) {
      const double error = GradAt(out, DType::kFloat32, static_cast<int64_t>(i)) - truth[i];
      sum[i] += error;
      sum2[i] += error * error;
      largest = std::max(largest, std::fabs(error));
    }
  }
  // Bernstein's inequality: an element may be rounded the other way in none of the draws.
  const double rare = kDeviations * kDeviations * largest / kDraws;
  double along = 0, along_variance = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    const double bias = sum[i] / kDraws;
    const double variance = std::max(0.0, sum2[i] / kDraws - bias * bias);
    ASSERT_LE(std::fabs(bias), kDeviations * std::sqrt(variance / kDraws) + rare)
        << "element " << i;
    along += bias * truth[i];
    along_variance += variance / kDraws * truth[i] * truth[i];
  }
  // The projection on the true sum would show a scale that is a little off.
  EXPECT_LE(std::fabs(along), kDeviations * std::sqrt(along_variance) + 1e-6 * largest);
}

// What no ranks can have sent is refused, or decodes to something, and nothing is written
// elsewhere.
TEST_P(CarriersTest, DamagedSumsAreHarmless) {
  if (traits().lossless) return;
  constexpr int kRanks = 3;
  constexpr int kTrials = kSanitized ? 50 : 250, kOfGaussians = kTrials * 4 / 5;
  int refused = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const Kind kind = trial < kOfGaussians ? Kind::kGaussian : Kind::kZeros;
    auto cases = Cases(kind, kRanks, 1 + static_cast<int64_t>(random_.Below(900)), DType::kFloat32,
                       ResidualMode::kNone);
    if (kind == Kind::kZeros) cases[1].grad = cases[0].grad;
    if (!Takes(cases[0], kRanks)) continue;
    const int hit = static_cast<int>(random_.Below(static_cast<uint32_t>(method().rounds())));
    const auto results =
        RunCarriers(method(), cases, InOrder(kRanks), 1.0f, [&](int round, auto* bytes) {
          if (round != hit) return;
          for (std::byte& b : *bytes) b = static_cast<std::byte>(random_());
        });
    refused += results[0].absorbed.code() == gwDataCorrupt;
    for (const CarrierRank& rank : results) {
      EXPECT_EQ(rank.absorbed.code(), results[0].absorbed.code());
    }
  }
  EXPECT_TRUE(refused > 0 || !HasRoundOf(DType::kUint32));
}

INSTANTIATE_TEST_SUITE_P(All, CarriersTest, ::testing::ValuesIn(AllCarriersOnTargets()), TestName);

TEST(LevelCarrier, TooManyRanksForTheLanesAreRefused) {
  const Codec codec = *MakeCodec("qsgd(bits=8,sum=carrier)");
  constexpr int kMost = 2147483647 / (2 * 127);
  EXPECT_TRUE(codec.carrier->Check({}, kMost).ok());
  EXPECT_EQ(codec.carrier->Check({}, kMost + 1).code(), gwInvalidArgument);
}

}  // namespace
}  // namespace gradwire
