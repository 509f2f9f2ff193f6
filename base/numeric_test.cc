#include "base/numeric.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "base/float16.h"
#include "base/rng.h"

namespace gradwire {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <typename T>
View ViewOf(std::vector<T>& v, DType dtype) {
  return {reinterpret_cast<std::byte*>(v.data()), static_cast<int64_t>(v.size()), dtype};
}

// NaN equals NaN, and -0 is not 0.
void ExpectSameBits(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i])) << "element " << i;
  }
}

std::vector<float> RandomFloats(int64_t elems, uint64_t seed) {
  RandomStream random(seed);
  std::vector<float> values(static_cast<size_t>(elems));
  for (float& v : values) v = static_cast<float>(static_cast<int32_t>(random())) * 1e-9f;
  return values;
}

// A multiplication by this is not left out, so a signalling NaN becomes quiet.
volatile float one = 1.0f;

const std::vector<int64_t> kLengths = {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 1000, 32767, 65539};

template <typename Bits>
void ExpectCounted(DType dtype, const std::vector<Bits>& bad, const std::vector<Bits>& good) {
  for (const int64_t elems : kLengths) {
    std::vector<Bits> values(static_cast<size_t>(elems));
    for (int64_t i = 0; i < elems; ++i) values[i] = good[i % good.size()];
    EXPECT_EQ(CountNonFinite(ViewOf(values, dtype)), 0u) << Name(dtype) << " " << elems;
    for (int64_t i = 0; i < elems; ++i) values[i] = bad[i % bad.size()];
    EXPECT_EQ(CountNonFinite(ViewOf(values, dtype)), static_cast<uint64_t>(elems));
    if (elems == 0) continue;
    std::fill(values.begin(), values.end(), good[0]);
    for (const int64_t at : {int64_t{0}, elems / 2, elems - 1}) {
      values[at] = bad[0];
      EXPECT_EQ(CountNonFinite(ViewOf(values, dtype)), 1u) << Name(dtype) << " " << elems;
      values[at] = good[0];
    }
  }
}

TEST(CountNonFinite, EveryFloatType) {
  ExpectCounted<float>(
      DType::kFloat32, {kNan, kInf, -kInf, -kNan},
      {0, -0.0f, 1, std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min(),
       std::numeric_limits<float>::lowest()});
  ExpectCounted<double>(DType::kFloat64, {kNan, kInf, -kInf},
                        {0, -0.0, std::numeric_limits<double>::max(), 1e300,
                         std::numeric_limits<double>::denorm_min()});
  ExpectCounted<uint16_t>(DType::kFloat16, {0x7C00, 0xFC00, 0x7C01, 0xFE00},
                          {0, 0x8000, 0x7BFF, 0xFBFF, 1, 0x3C00});
  ExpectCounted<uint16_t>(DType::kBfloat16, {0x7F80, 0xFF80, 0x7F81, 0xFFC0},
                          {0, 0x8000, 0x7F7F, 0xFF7F, 1, 0x7C00});
}

TEST(CountNonFinite, IntegersHaveNone) {
  std::vector<uint64_t> ones(16, ~uint64_t{0});
  for (const DType dtype : {DType::kInt8, DType::kUint8, DType::kInt32, DType::kUint32,
                            DType::kInt64, DType::kUint64}) {
    EXPECT_EQ(CountNonFinite(ViewOf(ones, dtype)), 0u) << Name(dtype);
  }
}

// A gradient of each type that holds the same values in float32.
struct Gradient {
  std::vector<float> wide;
  std::vector<float> f32;
  std::vector<uint16_t> f16;
  DType dtype;
  ConstView view() { return dtype == DType::kFloat32 ? ViewOf(f32, dtype) : ViewOf(f16, dtype); }
};

Gradient MakeGradient(DType dtype, int64_t elems) {
  Gradient g = {.wide = RandomFloats(elems, 1), .dtype = dtype};
  if (elems > 2) g.wide[1] = kNan, g.wide[2] = -kInf;
  for (float& x : g.wide) {
    if (dtype == DType::kFloat16) x = FloatFromFp16(g.f16.emplace_back(Fp16FromFloat(x)));
    if (dtype == DType::kBfloat16) x = FloatFromBf16(g.f16.emplace_back(Bf16FromFloat(x)));
  }
  g.f32 = g.wide;
  return g;
}

class Contribution : public testing::TestWithParam<DType> {};

TEST_P(Contribution, LoadAndAddAreOneRoundingEach) {
  constexpr float kScale = 1.0f / 3;  // no power of two: the product rounds
  for (const int64_t elems : kLengths) {
    SCOPED_TRACE(elems);
    Gradient g = MakeGradient(GetParam(), elems);
    std::vector<float> e = RandomFloats(elems, 2);
    std::vector<float> acc = RandomFloats(elems, 3), sum = acc;
    std::vector<float> want(e.size()), want_sum(e.size()), plain(e.size()), plain_sum(e.size());
    for (size_t i = 0; i < e.size(); ++i) {
      volatile float product = g.wide[i] * kScale;  // never fused with the addition
      plain[i] = product;
      want[i] = product + e[i];
      want_sum[i] = sum[i] + want[i];
      plain_sum[i] = sum[i] + plain[i];
    }
    const View out = ViewOf(acc, DType::kFloat32);
    AddContribution(g.view(), kScale, ViewOf(e, DType::kFloat32), out);
    ExpectSameBits(acc, want_sum);
    acc = sum;
    AddContribution(g.view(), kScale, {}, out);
    ExpectSameBits(acc, plain_sum);
    LoadContribution(g.view(), kScale, ViewOf(e, DType::kFloat32), out);
    ExpectSameBits(acc, want);
    LoadContribution(g.view(), kScale, {}, out);
    ExpectSameBits(acc, plain);
    const View in_place = ViewOf(e, DType::kFloat32);
    LoadContribution(g.view(), kScale, in_place, in_place);
    ExpectSameBits(e, want);
  }
}

INSTANTIATE_TEST_SUITE_P(, Contribution,
                         testing::Values(DType::kFloat32, DType::kFloat16, DType::kBfloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST(AddDecayed, RoundsEachOperation) {
  for (const int64_t elems : kLengths) {
    std::vector<float> last = RandomFloats(elems, 1), next = RandomFloats(elems, 2), want;
    for (size_t i = 0; i < next.size(); ++i) {
      volatile float old = 0.9f * last[i], added = 0.1f * next[i];  // never fused
      want.push_back(old + added);
    }
    AddDecayed(ViewOf(last, DType::kFloat32), 0.9f, 0.1f, ViewOf(next, DType::kFloat32));
    ExpectSameBits(next, want);
    AddDecayed(ViewOf(last, DType::kFloat32), 0, 1, ViewOf(next, DType::kFloat32));
    ExpectSameBits(next, want);
  }
}

TEST(ScaleInto, WidensEveryHalfAsTheSpecification) {
  std::vector<uint16_t> halves(1 << 16);
  std::iota(halves.begin(), halves.end(), uint16_t{0});
  std::vector<float> got(halves.size()), want(halves.size());
  ScaleInto(ViewOf(halves, DType::kFloat16), 1.0f, ViewOf(got, DType::kFloat32));
  for (size_t i = 0; i < want.size(); ++i) want[i] = FloatFromFp16(halves[i]) * one;
  ExpectSameBits(got, want);
  ScaleInto(ViewOf(halves, DType::kBfloat16), 1.0f, ViewOf(got, DType::kFloat32));
  for (size_t i = 0; i < want.size(); ++i) want[i] = FloatFromBf16(halves[i]) * one;
  ExpectSameBits(got, want);
}

// Every finite half, the middle to the next one and both neighbours of that middle; then a walk
// over all float32 bit patterns.
std::vector<float> NarrowingInputs() {
  std::vector<float> values;
  for (uint32_t half = 0; half < 0x7C00; ++half) {
    const float low = FloatFromFp16(static_cast<uint16_t>(half));
    const float step =
        half == 0x7BFF ? 32.0f : FloatFromFp16(static_cast<uint16_t>(half + 1)) - low;
    const float middle = low + step / 2;
    for (const float v :
         {low, middle, std::nextafter(middle, 0.0f), std::nextafter(middle, kInf)}) {
      values.insert(values.end(), {v, -v});
    }
  }
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 4093) {
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  return values;
}

TEST(ScaleInto, NarrowsAsTheSpecification) {
  std::vector<float> values = NarrowingInputs();
  std::vector<uint16_t> got(values.size());
  ScaleInto(ViewOf(values, DType::kFloat32), 1.0f, ViewOf(got, DType::kFloat16));
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i], Fp16FromFloat(values[i] * one)) << std::bit_cast<uint32_t>(values[i]);
  }
  ScaleInto(ViewOf(values, DType::kFloat32), 1.0f, ViewOf(got, DType::kBfloat16));
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i], Bf16FromFloat(values[i] * one)) << std::bit_cast<uint32_t>(values[i]);
  }
}

TEST(ScaleInto, BetweenHalvesAndInPlace) {
  std::vector<uint16_t> half = {0x3C00, 0x4000, 0xC200, 0x0001};  // 1, 2, -3, 2^-24
  std::vector<uint16_t> brain(half.size());
  ScaleInto(ViewOf(half, DType::kFloat16), 0.5f, ViewOf(brain, DType::kBfloat16));
  EXPECT_EQ(brain, (std::vector<uint16_t>{0x3F00, 0x3F80, 0xBFC0, 0x3300}));
  ScaleInto(ViewOf(half, DType::kFloat16), 2.0f, ViewOf(half, DType::kFloat16));
  EXPECT_EQ(half, (std::vector<uint16_t>{0x4000, 0x4400, 0xC600, 0x0002}));
  std::vector<float> wide = {1, -2, kInf};
  ScaleInto(ViewOf(wide, DType::kFloat32), 3.0f, ViewOf(wide, DType::kFloat32));
  EXPECT_EQ(wide, (std::vector<float>{3, -6, kInf}));
  std::vector<double> twice = {0.1, -0.2}, tripled(2);
  ScaleInto(ViewOf(twice, DType::kFloat64), 3.0f, ViewOf(tripled, DType::kFloat64));
  EXPECT_EQ(tripled, (std::vector<double>{0.1 * 3, -0.2 * 3}));
}

TEST(ScaleInto, ByOneCopiesBytes) {
  std::vector<uint32_t> patterns = {0x7F800001, 0x80000000, 0x00000001, 0xFFC12345}, copy(4);
  ScaleInto(ViewOf(patterns, DType::kFloat32), 1.0f, ViewOf(copy, DType::kFloat32));
  EXPECT_EQ(copy, patterns);
  ScaleInto(ViewOf(patterns, DType::kFloat32), 1.0f, ViewOf(patterns, DType::kFloat32));
  EXPECT_EQ(copy, patterns);
  ScaleInto({}, 1.0f, {});
}

}  // namespace
}  // namespace gradwire
