#include "compress/codecs/qsgd/qsgd_codec.h"

#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/view.h"
#include "compress/kernels/dispatch.h"
#include "compress/registry.h"

namespace gradwire {
namespace {

std::vector<uint8_t> Encode(const PayloadCodec& codec, const std::vector<float>& p,
                            const Dither& dither = {}) {
  const auto elems = static_cast<int64_t>(p.size());
  std::vector<uint8_t> payload(static_cast<size_t>(codec.MaxBytes(elems)));
  const EncodeArgs args{
      .grad = FloatView(p.data(), elems),
      .out = {reinterpret_cast<std::byte*>(payload.data()), static_cast<int64_t>(payload.size())},
      .dither = dither};
  EXPECT_TRUE(codec.Encode(args).ok());
  return payload;
}

StatusOr<std::vector<float>> Decode(const PayloadCodec& codec, const std::vector<uint8_t>& payload,
                                    size_t elems) {
  std::vector<float> out(elems);
  const ConstBytes bytes(reinterpret_cast<const std::byte*>(payload.data()),
                         static_cast<int64_t>(payload.size()));
  GW_RETURN_IF_ERROR(
      codec.Decode(bytes, FloatView(out.data(), static_cast<int64_t>(elems)), 1.0f, nullptr));
  return out;
}

std::shared_ptr<const PayloadCodec> Make(const std::string& spec) {
  return MakeCodec(spec)->payload;
}

using Payload = std::vector<uint8_t>;
const std::vector<float> kFive = {1, -0.5f, 0.25f, 0, -1};

TEST(QsgdCodecTest, HasTheBytesOfTheWireFormatPage) {
  EXPECT_EQ(Encode(*Make("qsgd(4,feedback=on)"), kFive),
            (Payload{0, 0, 0x80, 0x3f, 0xc7, 0x02, 0x09, 0x00}));
  EXPECT_EQ(Encode(*Make("qsgd(3,feedback=on)"), kFive),
            (Payload{0, 0, 0x80, 0x3f, 0x1b, 0x01, 0, 0, 0x12, 0, 0, 0}));
}

TEST(QsgdCodecTest, PacksElement16jPlusIIntoWordIFieldJ) {
  const auto codec = Make("qsgd(8,feedback=on)");
  for (size_t element : {0u, 1u, 17u, 63u, 64u, 255u}) {
    std::vector<float> p(256, 0.0f);
    p[element] = 1.0f;
    Payload expected(4 + 256, 0);
    expected[2] = 0x80;
    expected[3] = 0x3f;
    const size_t group = element / 64, lane = element % 16, field = element % 64 / 16;
    expected[4 + 64 * group + 4 * lane + field] = 127;
    EXPECT_EQ(Encode(*codec, p), expected) << element;
  }
}

TEST(QsgdCodecTest, SizesOfTails) {
  // A run of 17 elements: 16 words of 8-bit fields would do for 64, five are enough for 17.
  EXPECT_EQ(Make("qsgd(8)")->MaxBytes(17), 4 + 4 * 5);
  EXPECT_EQ(Make("qsgd(4)")->MaxBytes(256 + 1), 4 + 128 + 4 + 4);
  EXPECT_EQ(Make("qsgd(7)")->MaxBytes(256), 4 + 7 * 32);
  EXPECT_EQ(Make("qsgd(7)")->MaxBytes(33), 4 + 4 * (5 + 3 + 2));
  EXPECT_EQ(Make("qsgd(2,512)")->MaxBytes(512), 4 + 128);
  EXPECT_EQ(Make("qsgd(2,512)")->MaxBytes(512 + 300), 4 + 128 + 4 + 64 + 4 * 3);
}

TEST(QsgdCodecTest, NearestIsWithinHalfALevel) {
  for (int bits = 2; bits <= 8; ++bits) {
    const auto codec = Make("qsgd(" + std::to_string(bits) + ",feedback=on)");
    std::vector<float> p(256);
    for (int i = 0; i < 256; ++i) p[i] = static_cast<float>(i - 128) / 128;
    const std::vector<float> out = *Decode(*codec, Encode(*codec, p), p.size());
    const float half = 0.5f / static_cast<float>((1 << (bits - 1)) - 1);
    for (int i = 0; i < 256; ++i) ASSERT_LE(std::fabs(out[i] - p[i]), half * 1.00001f) << bits;
  }
}

// The conformance suite judges by these.
TEST(QsgdCodecTest, SaysHowManyLevelsItRoundsTo) {
  const std::pair<const char*, int> cases[] = {
      {"qsgd", 127},   {"qsgd(2)", 1},  {"qsgd(3)", 3},  {"qsgd(4,block=768)", 7},
      {"qsgd(5)", 15}, {"qsgd(6)", 31}, {"qsgd(7)", 63}, {"qsgd(4,feedback=on)", 0}};
  for (const auto& [spec, levels] : cases) EXPECT_EQ(Make(spec)->traits().levels, levels) << spec;
}

TEST(QsgdCodecTest, StochasticHasTheExactVariance) {
  const auto codec = Make("qsgd(4)");
  std::vector<float> p(256);
  for (int i = 0; i < 256; ++i) p[i] = static_cast<float>((i * 37) % 256 - 128) / 128;
  double exact = 0;
  for (float v : p) {
    const double level = std::fabs(v) * 7, up = level - std::floor(level);
    exact += up * (1 - up) / 49;
  }
  double measured = 0;
  constexpr int kDraws = 3000;
  for (uint32_t step = 0; step < kDraws; ++step) {
    const Payload payload = Encode(*codec, p, {.seed = 1, .tensor = 2, .step = step});
    const std::vector<float> out = *Decode(*codec, payload, p.size());
    for (int i = 0; i < 256; ++i) measured += std::pow(out[i] - p[i], 2) / kDraws;
  }
  EXPECT_NEAR(measured, exact, 0.03 * exact);
}

// Where fl(L / scale) would overflow or be subnormal, and where L * fl(scale / L) would be
// infinite.
TEST(QsgdCodecTest, KeepsExtremeScales) {
  for (int bits = 2; bits <= 8; ++bits) {
    for (const char* feedback : {"on", "off"}) {
      const auto codec = Make("qsgd(bits=" + std::to_string(bits) + ",feedback=" + feedback + ")");
      for (float scale : {FLT_MIN, 0x1p-120f, 0x1p-81f, 0x1p80f, 0x1p120f, FLT_MAX,
                          std::nextafter(FLT_MAX, 0.0f), 0x1.fffffp127f}) {
        const std::vector<float> p = {scale, -scale, 0.0f, scale / 2};
        const std::vector<float> out = *Decode(*codec, Encode(*codec, p), p.size());
        EXPECT_NEAR(out[0] / scale, 1, 1e-4) << bits << " bits, " << scale;
        EXPECT_NEAR(out[1] / scale, -1, 1e-4) << scale;
        EXPECT_EQ(out[2], 0.0f);
        EXPECT_LE(std::fabs(out[3]), scale) << scale;
      }
    }
  }
}

TEST(QsgdCodecTest, RefusesWhatNoEncoderWrites) {
  const auto codec = Make("qsgd(4,feedback=on)");
  const Payload good = Encode(*codec, kFive);
  EXPECT_TRUE(Decode(*codec, good, 5).ok());
  const auto with_scale = [&](uint32_t bits) {
    Payload bad = good;
    std::memcpy(bad.data(), &bits, 4);
    return Decode(*codec, bad, 5).status().code();
  };
  for (uint32_t bits : {0x80000000u, 0xBF800000u, 0x7F800000u, 0x7F7FFFFFu, 0x00000001u,
                        0x007FFFFFu, 0x7FC00001u, 0xFFC00000u}) {
    EXPECT_EQ(with_scale(bits), gwDataCorrupt) << std::hex << bits;
  }
  for (uint32_t bits : {0x00800000u, 0x7F7FFFFEu}) {
    EXPECT_EQ(with_scale(bits), gwSuccess) << std::hex << bits;
  }
  Payload level = good;
  level[4] = 0xC8;  // level -8
  EXPECT_EQ(Decode(*codec, level, 5).status().code(), gwDataCorrupt);
  Payload unused = good;
  unused[7] = 0x10;  // field 7 of 5 elements
  EXPECT_EQ(Decode(*codec, unused, 5).status().code(), gwDataCorrupt);
}

// Blocks that are zero or not finite have zeros behind the scale; whole and short ones.
TEST(QsgdCodecTest, RefusesLevelsWithoutAScale) {
  for (const SimdTarget target : SupportedTargets()) {
    ASSERT_TRUE(ForceTargetForTest(Name(target)));
    for (const char* spec : {"qsgd(4,feedback=on)", "qsgd(7,feedback=on)"}) {
      const auto codec = Make(spec);
      for (size_t elems : {5u, 256u, 512u, 600u}) {
        SCOPED_TRACE(std::string(Name(target)) + " " + spec + " " + std::to_string(elems));
        for (float value : {0.0f, NAN, INFINITY}) {
          std::vector<float> p(elems, 0.0f);
          p.back() = value;
          const Payload good = Encode(*codec, p);
          EXPECT_TRUE(Decode(*codec, good, elems).ok()) << value;
          Payload bad = good;
          bad[bad.size() - (elems % 256 == 0 ? 1 : 4)] = 1;  // in the last word, whoever packs it
          EXPECT_EQ(Decode(*codec, bad, elems).status().code(), gwDataCorrupt) << value;
        }
      }
    }
  }
  ForceTargetForTest({});
}

}  // namespace
}  // namespace gradwire
