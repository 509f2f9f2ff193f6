// Laws of chance of payload codecs: unbiased codecs are unbiased, those that round between levels
// have the variance of just so many, calls repeat, and steps, ranks and purposes draw different
// bits. A codec with another law of variance has it in its own test.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>

#include "tests/conformance/codec_world.h"

namespace gradwire {
namespace {

// More than 5.5 standard deviations in any of 2^12 elements has a chance of 2e-4; the linear term
// covers elements that are rarely rounded the other way (Bernstein's inequality).
constexpr int kDraws = 4096;
constexpr double kSigmas = 5.5;
constexpr double kRareDraws = 30;

struct Moments {
  std::vector<float> p;
  std::vector<double> sum, sum2;  // of decoded - p
  std::vector<float> low, high;   // of decoded
};

// The variance of rounding `p` at random to one of the two levels around each element, where every
// block has `levels` of them on each side, evenly up to its largest magnitude N. It is at most
// (N / levels)^2 / 4 per element.
struct Variance {
  double exact = 0, bound = 0;
  double fourth = 0;  // the variance of one draw's squared error
  double unit2 = 0;   // most that an element's squared error can be
  double slack = 0;   // chances are multiples of 2^-16

  // How far off the mean over `draws` may be.
  double Tolerance(int draws) const {
    return kSigmas * std::sqrt(fourth / draws) + kRareDraws * unit2 / draws + slack;
  }
};
Variance VarianceOfLevels(const std::vector<float>& p, int64_t levels, int64_t block_elems) {
  Variance v;
  for (auto block = p.begin(); block != p.end();) {
    const auto end = block + std::min<int64_t>(block_elems, p.end() - block);
    double largest = 0;
    for (auto x = block; x != end; ++x) largest = std::max(largest, std::fabs(double{*x}));
    const double unit = largest / static_cast<double>(levels);
    for (; block != end; ++block) {
      if (unit == 0) continue;
      const double at = std::fabs(double{*block}) / unit, up = at - std::floor(at);
      const double unit2 = unit * unit, exact = up * (1 - up);
      v.exact += unit2 * exact;
      v.bound += unit2 / 4;
      v.fourth += unit2 * unit2 * (exact * (1 - 3 * exact) - exact * exact);
      v.unit2 = std::max(v.unit2, unit2);
      v.slack += unit2 * 0x1p-16;
    }
  }
  return v;
}

class CodecsRandomTest : public CodecTest {
 protected:
  // Decodes `draws` encodings of one input, which has no residual.
  Moments Draw(EncodeCase c, int draws) {
    const int64_t elems = c.elems();
    Moments m{.p = c.Input()};
    m.sum.resize(m.p.size());
    m.sum2.resize(m.p.size());
    m.low.assign(m.p.size(), INFINITY);
    m.high.assign(m.p.size(), -INFINITY);
    std::vector<std::byte> payload(static_cast<size_t>(codec().MaxBytes(elems)));
    std::vector<float> out(static_cast<size_t>(elems));
    for (int draw = 0; draw < draws; ++draw) {
      c.dither.step = static_cast<uint32_t>(draw);
      Add(c, &payload, &out, &m);
    }
    return m;
  }

  EncodeCase Plain(Kind kind, int64_t elems) {
    return NewCase(kind, elems, DType::kFloat32, ResidualMode::kNone);
  }

  // Elements halfway between two levels, whose variance is the bound; each block has a 1.
  EncodeCase Halfway(int64_t levels, int64_t elems) {
    EncodeCase c = Plain(Kind::kZeros, elems);
    for (int64_t i = 0; i < elems; ++i) {
      const double at = (static_cast<double>(i % levels) + 0.5) / static_cast<double>(levels);
      const float v = i % quantum() == 0 ? 1.0f : static_cast<float>(i % 2 == 0 ? at : -at);
      std::memcpy(c.grad.data() + 4 * i, &v, 4);
    }
    return c;
  }

  static double SumOf(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0);
  }

  // Plain buffers: guarded ones would take most of the time.
  void Add(const EncodeCase& c, std::vector<std::byte>* payload, std::vector<float>* out,
           Moments* m) {
    const auto elems = static_cast<int64_t>(out->size());
    const EncodeArgs args{.grad = {c.grad.data(), elems, c.dtype},
                          .out = {payload->data(), static_cast<int64_t>(payload->size())},
                          .dither = c.dither};
    ASSERT_TRUE(codec().Encode(args).ok());
    ASSERT_TRUE(codec().Decode(args.out, FloatView(out->data(), elems), 1.0f, nullptr).ok());
    for (size_t i = 0; i < out->size(); ++i) {
      const double error = static_cast<double>((*out)[i]) - m->p[i];
      m->sum[i] += error;
      m->sum2[i] += error * error;
      m->low[i] = std::min(m->low[i], (*out)[i]);
      m->high[i] = std::max(m->high[i], (*out)[i]);
    }
  }
};

TEST_P(CodecsRandomTest, IsUnbiasedIfItSaysSo) {
  if (!traits().unbiased) return;
  const Moments m = Draw(Plain(Kind::kGaussian, 1000), kDraws);
  double range = 0;
  for (size_t i = 0; i < m.p.size(); ++i) {
    range = std::max(range, static_cast<double>(m.high[i]) - m.low[i]);
  }
  double along = 0, along_variance = 0;
  for (size_t i = 0; i < m.p.size(); ++i) {
    const double bias = m.sum[i] / kDraws;
    const double variance = std::max(0.0, m.sum2[i] / kDraws - bias * bias);
    const double rare = kRareDraws * range / kDraws;
    ASSERT_LE(std::fabs(bias), kSigmas * std::sqrt(variance / kDraws) + rare) << "element " << i;
    along += bias * m.p[i];
    along_variance += variance / kDraws * m.p[i] * m.p[i];
  }
  // The projection on the input would show a scale that is a little off.
  EXPECT_LE(std::fabs(along), 5 * std::sqrt(along_variance) + 1e-6 * range);
}

// Exact, and below the bound omega |p|^2, whatever the input.
TEST_P(CodecsRandomTest, HasTheVarianceOfItsLevels) {
  const int64_t levels = traits().levels, elems = quantum() + 333;
  if (levels == 0 && !traits().lossless) return;
  constexpr int kVarianceDraws = 1024;
  for (Kind kind : {Kind::kGaussian, Kind::kNegative, Kind::kSorted, Kind::kSparse, Kind::kConstant,
                    Kind::kOneHot}) {
    SCOPED_TRACE(Name(kind));
    const EncodeCase c = Plain(kind, elems);
    const double measured = SumOf(Draw(c, kVarianceDraws).sum2) / kVarianceDraws;
    if (levels == 0) {
      EXPECT_EQ(measured, 0);
      continue;
    }
    const Variance v = VarianceOfLevels(c.Input(), levels, quantum());
    EXPECT_NEAR(measured, v.exact, v.Tolerance(kVarianceDraws));
    EXPECT_LE(measured, v.bound + v.Tolerance(kVarianceDraws));
  }
}

// The square of such an element's error is the same in every draw, whichever way it goes: only its
// mean tells whether it goes either way.
TEST_P(CodecsRandomTest, ReachesTheBoundOfItsVarianceHalfwayBetweenLevels) {
  const int64_t levels = traits().levels;
  if (levels == 0) return;
  constexpr int kHalfwayDraws = 512;
  const EncodeCase c = Halfway(levels, 2 * quantum());
  const Variance v = VarianceOfLevels(c.Input(), levels, quantum());
  const Moments m = Draw(c, kHalfwayDraws);
  const double measured = SumOf(m.sum2) / kHalfwayDraws;
  EXPECT_NEAR(measured, v.bound, 0.03 * v.bound);
  for (size_t i = 0; i < m.p.size(); ++i) {
    const double half = 0.5 / static_cast<double>(levels);
    ASSERT_LE(std::fabs(m.sum[i]), kSigmas * half * std::sqrt(kHalfwayDraws))
        << "element " << i << " is rounded one way";
  }
  // omega = B / (4 levels^2): a block's largest magnitude is at most its norm.
  double energy = 0;
  for (float x : c.Input()) energy += double{x} * x;
  const auto b = static_cast<double>(quantum()), s = static_cast<double>(levels);
  EXPECT_LE(measured, b / (4 * s * s) * energy);
}

TEST_P(CodecsRandomTest, RepeatsItself) {
  const EncodeCase c = NewCase(Kind::kGaussian, 1300, DType::kFloat32, ResidualMode::kSeparate);
  const Encoded first = RunEncode(codec(), c);
  const Encoded second = RunEncode(codec(), c);
  EXPECT_EQ(first.payload, second.payload);
  EXPECT_TRUE(SameBits(first.e_out, second.e_out));
}

TEST_P(CodecsRandomTest, DrawsByEveryPartOfTheKey) {
  const EncodeCase c = NewCase(Kind::kGaussian, 1300, DType::kFloat32, ResidualMode::kNone);
  const std::vector<std::byte> payload = RunEncode(codec(), c).payload;
  const bool random = traits().stochastic;
  const auto differs = [&](void (*change)(Dither*, int64_t), const char* what) {
    EncodeCase other = c;
    change(&other.dither, quantum());
    EXPECT_EQ(RunEncode(codec(), other).payload != payload, random) << what;
  };
  differs([](Dither* d, int64_t) { ++d->step; }, "step");
  differs([](Dither* d, int64_t) { ++d->seed; }, "seed");
  differs([](Dither* d, int64_t) { d->rank ^= 1; }, "rank");
  differs([](Dither* d, int64_t) { d->tensor += 1; }, "tensor, low half");
  differs([](Dither* d, int64_t) { d->tensor += uint64_t{1} << 40; }, "tensor, high half");
  differs([](Dither* d, int64_t) { d->purpose = DitherPurpose::kOwner; }, "purpose");
  differs([](Dither* d, int64_t quantum) { d->first_elem += quantum; }, "position");
}

INSTANTIATE_TEST_SUITE_P(All, CodecsRandomTest, ::testing::ValuesIn(AllCodecsOnTargets()),
                         TestName);

}  // namespace
}  // namespace gradwire
