// Laws of chance of payload codecs: unbiased codecs are unbiased with the variance of rounding
// between two neighbours, calls repeat, and steps, ranks and purposes draw different bits.
#include <algorithm>
#include <cmath>

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

class CodecsRandomTest : public CodecTest {
 protected:
  // Decodes `kDraws` encodings of one input.
  Moments Draw(int64_t elems) {
    EncodeCase c = NewCase(Kind::kGaussian, elems, DType::kFloat32, ResidualMode::kNone);
    Moments m{.p = c.Input()};
    m.sum.resize(m.p.size());
    m.sum2.resize(m.p.size());
    m.low.assign(m.p.size(), INFINITY);
    m.high.assign(m.p.size(), -INFINITY);
    std::vector<std::byte> payload(static_cast<size_t>(codec().MaxBytes(elems)));
    std::vector<float> out(static_cast<size_t>(elems));
    for (int draw = 0; draw < kDraws; ++draw) {
      c.dither.step = static_cast<uint32_t>(draw);
      Add(c, &payload, &out, &m);
    }
    return m;
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
  const Moments m = Draw(1000);
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

TEST_P(CodecsRandomTest, HasTheVarianceOfRoundingToNeighbours) {
  if (!traits().unbiased) return;
  const Moments m = Draw(1000);
  double measured = 0, exact = 0;
  for (size_t i = 0; i < m.p.size(); ++i) {
    measured += m.sum2[i] / kDraws;
    // Two values with the mean p: their variance. Zero where only one was seen.
    exact += (static_cast<double>(m.high[i]) - m.p[i]) * (static_cast<double>(m.p[i]) - m.low[i]);
  }
  EXPECT_NEAR(measured, exact, 0.03 * exact);
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
  const bool random = traits().unbiased && !traits().lossless;
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
