#include "compress/codecs/cast_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "base/view.h"
#include "compress/registry.h"

namespace gradwire {
namespace {

// To nearest with p significant bits, values of [2^e, 2^(e+1)) lie 2^(e-p+1) apart: at most half of
// that is lost, which is less than 2^-p of the value. Halfway above a power of two comes closest.
struct RoundingLaw {
  const char* spec;
  int significant_bits;              // the leading one included
  int least_exponent, exponent_end;  // of the values it holds for
};

class RoundingLawTest : public testing::TestWithParam<RoundingLaw> {};

TEST_P(RoundingLawTest, IsTight) {
  const RoundingLaw& law = GetParam();
  const double unit = std::ldexp(1.0, -law.significant_bits);
  // Finer than the spacing of either type, and through the points halfway.
  constexpr int kParts = 1 << 13;
  std::vector<float> p;
  for (int e = law.least_exponent; e < law.exponent_end; ++e) {
    for (int i = 0; i < kParts; ++i)
      p.push_back(std::ldexp(1.0f + static_cast<float>(i) / kParts, e));
  }
  const auto elems = static_cast<int64_t>(p.size());
  const StatusOr<Codec> codec = MakeCodec(law.spec);
  ASSERT_TRUE(codec.ok());
  std::vector<std::byte> payload(static_cast<size_t>(codec->payload->MaxBytes(elems)));
  const Bytes bytes = {payload.data(), static_cast<int64_t>(payload.size())};
  ASSERT_TRUE(codec->payload->Encode({.grad = FloatView(p.data(), elems), .out = bytes}).ok());
  std::vector<float> out(p.size());
  ASSERT_TRUE(codec->payload->Decode(bytes, FloatView(out.data(), elems), 1.0f, nullptr).ok());
  double worst = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(out[i]) - p[i]) / p[i]);
  }
  EXPECT_DOUBLE_EQ(worst, unit / (1 + unit));
}

INSTANTIATE_TEST_SUITE_P(Casts, RoundingLawTest,
                         testing::Values(RoundingLaw{"bf16", 8, -20, 20},
                                         RoundingLaw{"fp16", 11, -14, 15}),
                         [](const auto& info) { return std::string(info.param.spec); });

}  // namespace
}  // namespace gradwire
