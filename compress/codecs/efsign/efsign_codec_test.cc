#include "compress/codecs/efsign/efsign_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <string>
#include <vector>

#include "base/view.h"
#include "compress/kernels/dispatch.h"
#include "compress/registry.h"

namespace gradwire {
namespace {

using Payload = std::vector<uint8_t>;

class EfsignCodecTest : public testing::Test {
 protected:
  // Encodes with a residual of zeros; leaves the new one in e_.
  Payload Encode(const std::vector<float>& p) {
    const auto elems = static_cast<int64_t>(p.size());
    Payload payload(static_cast<size_t>(codec_->MaxBytes(elems)));
    e_.assign(p.size(), 0.0f);
    const EncodeArgs args{.grad = FloatView(p.data(), elems),
                          .e_in = FloatView(e_.data(), elems),
                          .e_out = FloatView(e_.data(), elems),
                          .out = {reinterpret_cast<std::byte*>(payload.data()),
                                  static_cast<int64_t>(payload.size())}};
    EXPECT_TRUE(codec_->Encode(args).ok());
    return payload;
  }

  Status Decode(const Payload& payload, std::vector<float>* out) {
    const ConstBytes bytes(reinterpret_cast<const std::byte*>(payload.data()),
                           static_cast<int64_t>(payload.size()));
    return codec_->Decode(bytes, FloatView(out->data(), static_cast<int64_t>(out->size())), 1.0f,
                          nullptr);
  }

  std::shared_ptr<const PayloadCodec> codec_ = MakeCodec("efsign")->payload;
  std::vector<float> e_;
};

TEST_F(EfsignCodecTest, HasTheBytesOfTheWireFormatPage) {
  EXPECT_EQ(Encode({1, -0.5f, 0.25f, 0, -1}), (Payload{0xcd, 0xcc, 0x0c, 0x3f, 0x12, 0, 0, 0}));
}

TEST_F(EfsignCodecTest, ZeroOfEitherSignIsPositive) {
  const Payload payload = Encode({0.0f, -0.0f, -1.0f, 1.0f});
  EXPECT_EQ(payload[4], 0x04);
  std::vector<float> out(4);
  ASSERT_TRUE(Decode(payload, &out).ok());
  EXPECT_EQ(out, (std::vector<float>{0.5f, 0.5f, -0.5f, 0.5f}));
  EXPECT_EQ(e_, (std::vector<float>{-0.5f, -0.5f, -0.5f, 0.5f}));
}

// 256 times the largest float would overflow while it is summed.
TEST_F(EfsignCodecTest, KeepsExtremeScales) {
  for (float scale : {FLT_MIN, 0x1p-100f, 0x1p100f, FLT_MAX}) {
    for (size_t elems : {256u, 255u, 3u}) {
      const std::vector<float> p(elems, -scale);
      std::vector<float> out(elems);
      ASSERT_TRUE(Decode(Encode(p), &out).ok());
      for (float v : out) ASSERT_NEAR(v / scale, -1, 1e-5) << scale;
    }
  }
}

// |e|^2 = |p|^2 - |p|_1^2 / t of each block of t elements, whatever it holds.
TEST_F(EfsignCodecTest, LosesWhatItsLawSays) {
  constexpr size_t kBlock = 256;
  for (size_t elems : {kBlock, 2 * kBlock + 88}) {
    for (size_t zeros_below : {0u, 5u, 19u}) {  // of 20 elements
      std::vector<float> p(elems);
      for (size_t i = 0; i < elems; ++i)
        p[i] = i % 20 < zeros_below ? 0.0f : static_cast<float>(i * 37 % 101) - 40.0f;
      Encode(p);
      for (size_t first = 0; first < elems; first += kBlock) {
        const size_t end = std::min(elems, first + kBlock);
        double energy = 0, sum = 0, lost = 0;
        for (size_t i = first; i < end; ++i) {
          energy += double{p[i]} * p[i];
          sum += std::fabs(double{p[i]});
          lost += double{e_[i]} * e_[i];
        }
        EXPECT_NEAR(lost, energy - sum * sum / static_cast<double>(end - first), 1e-5 * energy);
      }
    }
  }
}

// Gradients 4 with chance 1/4, -1 with chance 3/4: the sign points the wrong way, feedback mends
// it.
TEST_F(EfsignCodecTest, FeedbackFollowsTheMeanWhereTheSignDoesNot) {
  std::vector<float> e(256, 0.0f), out(256);
  double sent = 0, given = 0;
  for (int step = 0; step < 400; ++step) {
    std::vector<float> g(256);
    for (int i = 0; i < 256; ++i) g[i] = (step + i) % 4 == 0 ? 4.0f : -1.0f;
    Payload payload(static_cast<size_t>(codec_->MaxBytes(256)));
    const EncodeArgs args{.grad = FloatView(static_cast<const float*>(g.data()), 256),
                          .e_in = FloatView(e.data(), 256),
                          .e_out = FloatView(e.data(), 256),
                          .out = {reinterpret_cast<std::byte*>(payload.data()),
                                  static_cast<int64_t>(payload.size())}};
    ASSERT_TRUE(codec_->Encode(args).ok());
    ASSERT_TRUE(Decode(payload, &out).ok());
    for (int i = 0; i < 256; ++i) {
      sent += out[i];
      given += g[i];
    }
  }
  EXPECT_GT(given, 0);
  EXPECT_NEAR(sent / given, 1, 0.05);
}

TEST_F(EfsignCodecTest, RefusesWhatNoEncoderWrites) {
  const Payload good = Encode({1, -0.5f, 0.25f, 0, -1});
  std::vector<float> out(5);
  Payload unused = good;
  unused[7] = 0x80;
  EXPECT_EQ(Decode(unused, &out).code(), gwDataCorrupt);
  Payload negative = good;
  negative[3] |= 0x80;
  EXPECT_EQ(Decode(negative, &out).code(), gwDataCorrupt);
  Payload infinite = good;
  infinite[0] = infinite[1] = 0;
  infinite[2] = 0x80;
  infinite[3] = 0x7F;
  EXPECT_EQ(Decode(infinite, &out).code(), gwDataCorrupt);
}

// Blocks that are zero or not finite have no bits behind the scale; whole and short ones.
TEST_F(EfsignCodecTest, RefusesSignsWithoutAScale) {
  for (const SimdTarget target : SupportedTargets()) {
    ASSERT_TRUE(ForceTargetForTest(Name(target)));
    for (size_t elems : {5u, 256u, 300u, 512u}) {
      for (float value : {0.0f, NAN, INFINITY}) {
        SCOPED_TRACE(std::string(Name(target)) + " " + std::to_string(elems));
        std::vector<float> p(elems, 0.0f), out(elems);
        p.back() = value;
        Payload payload = Encode(p);
        EXPECT_TRUE(Decode(payload, &out).ok()) << value;
        payload[payload.size() - 4] |= 1;
        EXPECT_EQ(Decode(payload, &out).code(), gwDataCorrupt) << value;
      }
    }
  }
  ForceTargetForTest({});
}

}  // namespace
}  // namespace gradwire
