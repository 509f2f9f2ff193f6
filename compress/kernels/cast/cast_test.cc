// Every 16-bit pattern and all floats around one, on each target: the bits of base/float16.h.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/float16.h"
#include "compress/kernels/cast/cast_kernels.h"
#include "compress/kernels/dispatch.h"

namespace gradwire {
namespace {

std::vector<uint16_t> AllHalves() {
  std::vector<uint16_t> all(1 << 16);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  return all;
}

// What rounds to a 16-bit float, both ends of what does and their neighbours, and each exponent of
// float32. `dropped`: bits of the mantissa that the type lacks.
std::vector<float> FloatsAround(float (*widen)(uint16_t), int dropped) {
  std::vector<float> all;
  const auto add = [&](uint32_t bits) { all.push_back(std::bit_cast<float>(bits)); };
  for (uint16_t half : AllHalves()) {
    const auto bits = std::bit_cast<uint32_t>(widen(half));
    const uint32_t middle = bits + (1u << (dropped - 1));
    for (uint32_t near : {bits - 1, bits, bits + 1, middle - 1, middle, middle + 1}) add(near);
  }
  for (uint32_t exponent = 0; exponent < 512; ++exponent) {  // with the sign
    for (uint32_t mantissa : {0u, 1u, 0x1000u, 0x1FFFu, 0x3FFFFFu, 0x400000u, 0x7FFFFFu})
      add(exponent << 23 | mantissa);
  }
  return all;
}

// Subnormals of fp16 have units of 2^-24: halves of them lie elsewhere.
void AddSmall(std::vector<float>* all) {
  for (int i = 0; i <= 2 * 1024; ++i) {
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(i) * 0x1p-25f);
    for (uint32_t near : {bits - 1, bits, bits + 1}) {
      all->push_back(std::bit_cast<float>(near));
      all->push_back(-std::bit_cast<float>(near));
    }
  }
}

class CastKernelsTest : public ::testing::TestWithParam<SimdTarget> {
 protected:
  CastKernelsTest() { EXPECT_TRUE(ForceTargetForTest(Name(GetParam()))); }
  ~CastKernelsTest() override { ForceTargetForTest(""); }

  template <typename To, typename From>
  static std::vector<To> Decode(DType wire, const std::vector<From>& payload, DType out) {
    std::vector<To> result(payload.size());
    ActiveCastKernels().decode(wire, {.payload = reinterpret_cast<const std::byte*>(payload.data()),
                                      .out = reinterpret_cast<std::byte*>(result.data()),
                                      .dtype = out,
                                      .to = DecodeTo::kStore,
                                      .out_scale = 1.0f,
                                      .elems = static_cast<int64_t>(payload.size())});
    return result;
  }

  template <typename To, typename From>
  static std::vector<To> Encode(DType dtype, const std::vector<From>& grad, DType wire) {
    std::vector<To> result(grad.size());
    EncodeStats stats;
    ActiveCastKernels().encode(wire, {{.grad = reinterpret_cast<const std::byte*>(grad.data()),
                                       .dtype = dtype,
                                       .elems = static_cast<int64_t>(grad.size()),
                                       .stats = &stats},
                                      reinterpret_cast<std::byte*>(result.data())});
    return result;
  }
};

uint32_t Canonical(float v) { return v == v ? std::bit_cast<uint32_t>(v) : kNanBits; }

TEST_P(CastKernelsTest, WidensEveryPattern) {
  const struct {
    DType type;
    float (*widen)(uint16_t);
  } kTypes[] = {{DType::kFloat16, FloatFromFp16}, {DType::kBfloat16, FloatFromBf16}};
  const std::vector<uint16_t> halves = AllHalves();
  for (const auto& t : kTypes) {
    const auto decoded = Decode<uint32_t>(t.type, halves, DType::kFloat32);
    const auto encoded = Encode<uint32_t>(t.type, halves, DType::kFloat32);
    for (size_t i = 0; i < halves.size(); ++i) {
      const uint32_t expected = Canonical(t.widen(halves[i]));
      ASSERT_EQ(decoded[i], expected) << Name(t.type) << " " << i;
      ASSERT_EQ(encoded[i], expected) << Name(t.type) << " " << i;
    }
  }
}

TEST_P(CastKernelsTest, NarrowsAllFloatsNearAPattern) {
  const struct {
    DType type;
    float (*widen)(uint16_t);
    uint16_t (*narrow)(float);
    int dropped;
  } kTypes[] = {{DType::kFloat16, FloatFromFp16, Fp16FromFloat, 13},
                {DType::kBfloat16, FloatFromBf16, Bf16FromFloat, 16}};
  for (const auto& t : kTypes) {
    std::vector<float> floats = FloatsAround(t.widen, t.dropped);
    AddSmall(&floats);
    const auto decoded = Decode<uint16_t>(DType::kFloat32, floats, t.type);
    const auto encoded = Encode<uint16_t>(DType::kFloat32, floats, t.type);
    for (size_t i = 0; i < floats.size(); ++i) {
      const uint16_t expected = t.narrow(std::bit_cast<float>(Canonical(floats[i])));
      ASSERT_EQ(decoded[i], expected) << Name(t.type) << " " << floats[i];
      ASSERT_EQ(encoded[i], expected) << Name(t.type) << " " << floats[i];
    }
  }
}

// Both neighbours of the border at which a type ends, among elements far from it.
TEST_P(CastKernelsTest, CountsWhatBecomesInfinite) {
  const struct {
    DType type;
    float infinite;  // the least that does
  } kTypes[] = {{DType::kFloat16, 65520.0f}, {DType::kBfloat16, std::bit_cast<float>(0x7F7F8000u)}};
  for (const auto& t : kTypes) {
    SCOPED_TRACE(Name(t.type));
    const float largest = std::nextafter(t.infinite, 0.0f);
    std::vector<float> grad(kRunElems, 1.0f), e_out(kRunElems, -1.0f);
    grad[7] = t.infinite;
    grad[8] = -largest;
    std::vector<uint16_t> payload(kRunElems);
    EncodeStats stats;
    ActiveCastKernels().encode(t.type, {{.grad = reinterpret_cast<const std::byte*>(grad.data()),
                                         .e_out = e_out.data(),
                                         .elems = kRunElems,
                                         .stats = &stats},
                                        reinterpret_cast<std::byte*>(payload.data())});
    EXPECT_EQ(stats.nonfinite, 1u);
    EXPECT_EQ(stats.absmax, largest);
    EXPECT_EQ(e_out[7], 0) << "nothing of it is folded in";
    EXPECT_TRUE(std::isfinite(e_out[8]));
    EXPECT_EQ(e_out[9], 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, CastKernelsTest, ::testing::ValuesIn(SupportedTargets()),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace gradwire
