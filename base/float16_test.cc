#include "base/float16.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gradwire {
namespace {

uint32_t BitsOf(float value) { return std::bit_cast<uint32_t>(value); }
float FloatOf(uint32_t bits) { return std::bit_cast<float>(bits); }

static_assert(Bf16FromFloat(1.0f) == 0x3F80);
static_assert(Fp16FromFloat(-2.0f) == 0xC000);
static_assert(FloatFromFp16(0x0001) == 0x1p-24f);
static_assert(FloatFromBf16(0x3F80) == 1.0f);

// A 16-bit binary format, rounded to in double precision with no shared code.
struct Format {
  int mantissa_bits;
  int min_exponent;  // of the smallest normal number
  double max_finite;
};
constexpr Format kBf16 = {7, -126, 0x1.FEp127};
constexpr Format kFp16 = {10, -14, 65504.0};

// The nearest value of the format, ties to even; |value| < infinity. nearbyint rounds ties to even.
double Nearest(const Format& format, double value) {
  if (value == 0) return value;
  const int exponent = std::max(std::ilogb(value), format.min_exponent);
  const double unit = std::ldexp(1.0, exponent - format.mantissa_bits);
  const double rounded = std::nearbyint(value / unit) * unit;
  if (std::abs(rounded) <= format.max_finite) return rounded;
  return std::copysign(std::numeric_limits<double>::infinity(), value);
}

// All exponents with mantissas around the ties of both formats, both signs, and random bits.
std::vector<float> Samples(uint32_t seed) {
  std::vector<float> samples;
  for (uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (uint32_t base = 0; base < 0x800000; base += 0x800) {
      for (const uint32_t offset : {0u, 1u, 0x7FFu}) {
        const uint32_t bits = (exponent << 23) | base | offset;
        samples.push_back(FloatOf(bits));
        samples.push_back(FloatOf(bits | 0x80000000u));
      }
    }
  }
  std::mt19937 random(seed);
  for (int i = 0; i < 1 << 20; ++i) samples.push_back(FloatOf(static_cast<uint32_t>(random())));
  return samples;
}

void ExpectNarrowed(const Format& format, float value, uint16_t narrow, float widened) {
  if (std::isnan(value)) {
    ASSERT_TRUE(std::isnan(widened)) << std::hex << BitsOf(value);
    ASSERT_TRUE(narrow & (1u << (format.mantissa_bits - 1))) << "not quiet " << BitsOf(value);
  } else {
    const double want = std::isinf(value) ? double{value} : Nearest(format, value);
    ASSERT_EQ(double{widened}, want) << std::hex << BitsOf(value);
  }
  ASSERT_EQ(std::signbit(widened), std::signbit(value)) << std::hex << BitsOf(value);
}

TEST(Float16, Bf16RoundTripsAllBitPatterns) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const float wide = FloatFromBf16(static_cast<uint16_t>(bits));
    ASSERT_EQ(BitsOf(wide), bits << 16);
    const uint32_t quiet = std::isnan(wide) ? 0x0040u : 0u;
    ASSERT_EQ(Bf16FromFloat(wide), bits | quiet) << std::hex << bits;
  }
}

TEST(Float16, Fp16RoundTripsAllBitPatterns) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const float wide = FloatFromFp16(static_cast<uint16_t>(bits));
    const uint32_t quiet = std::isnan(wide) ? 0x0200u : 0u;
    ASSERT_EQ(Fp16FromFloat(wide), bits | quiet) << std::hex << bits;
  }
}

TEST(Float16, Fp16WidensToItsDefinition) {
  for (uint32_t bits = 0; bits < 0x7C00; ++bits) {
    const int exponent = static_cast<int>(bits >> 10);
    const double mantissa = bits & 0x3FF;
    const double want =
        exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    ASSERT_EQ(double{FloatFromFp16(static_cast<uint16_t>(bits))}, want) << std::hex << bits;
    ASSERT_EQ(double{FloatFromFp16(static_cast<uint16_t>(bits | 0x8000))}, -want);
  }
  EXPECT_EQ(FloatFromFp16(0x7C00), std::numeric_limits<float>::infinity());
  EXPECT_EQ(FloatFromFp16(0xFC00), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(BitsOf(FloatFromFp16(0x7D55)), 0x7FEAA000u) << "signalling NaN becomes quiet";
}

TEST(Float16, NarrowingAgreesWithDoubleReference) {
  constexpr uint32_t kSeed = 16001;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  for (const float value : Samples(kSeed)) {
    const uint16_t bf16 = Bf16FromFloat(value);
    ASSERT_NO_FATAL_FAILURE(ExpectNarrowed(kBf16, value, bf16, FloatFromBf16(bf16)));
    const uint16_t fp16 = Fp16FromFloat(value);
    ASSERT_NO_FATAL_FAILURE(ExpectNarrowed(kFp16, value, fp16, FloatFromFp16(fp16)));
  }
}

TEST(Float16, TiesAndLimits) {
  EXPECT_EQ(Fp16FromFloat(65519.996f), 0x7BFF);
  EXPECT_EQ(Fp16FromFloat(65520.0f), 0x7C00) << "the tie above the largest finite number";
  EXPECT_EQ(Fp16FromFloat(0x1p-25f), 0x0000) << "a tie goes to even zero";
  EXPECT_EQ(Fp16FromFloat(-0x1p-25f), 0x8000);
  EXPECT_EQ(Fp16FromFloat(0x1.000002p-25f), 0x0001);
  EXPECT_EQ(Fp16FromFloat(0x1.FF8p-15f), 0x03FF) << "the largest subnormal";
  EXPECT_EQ(Fp16FromFloat(0x1.FFCp-15f), 0x0400) << "a tie carries into the exponent";
  EXPECT_EQ(Bf16FromFloat(FloatOf(0x3F808000)), 0x3F80);
  EXPECT_EQ(Bf16FromFloat(FloatOf(0x3F818000)), 0x3F82);
  EXPECT_EQ(Bf16FromFloat(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(Bf16FromFloat(FloatOf(0xFF800001)), 0xFFC0) << "payload below the cut: still a NaN";
}

#if defined(__x86_64__)
__attribute__((target("f16c"))) uint16_t HardwareFp16(float value) {
  const __m128i out = _mm_cvtps_ph(_mm_set_ss(value), _MM_FROUND_TO_NEAREST_INT);
  return static_cast<uint16_t>(_mm_cvtsi128_si32(out));
}

__attribute__((target("f16c"))) float HardwareFloat(uint16_t fp16) {
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(fp16)));
}

TEST(Float16, Fp16AgreesWithHardware) {
  __builtin_cpu_init();
  // clang 14 does not know the name f16c here; every processor with AVX2 has it.
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "this processor may lack F16C";
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto fp16 = static_cast<uint16_t>(bits);
    ASSERT_EQ(BitsOf(FloatFromFp16(fp16)), BitsOf(HardwareFloat(fp16))) << std::hex << bits;
  }
  constexpr uint32_t kSeed = 16002;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  for (const float value : Samples(kSeed)) {
    ASSERT_EQ(Fp16FromFloat(value), HardwareFp16(value)) << std::hex << BitsOf(value);
  }
}
#endif

}  // namespace
}  // namespace gradwire
