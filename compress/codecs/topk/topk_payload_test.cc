// What the payload of topk holds; its laws are in tests/conformance.
#include "compress/codecs/topk/topk_payload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "base/view.h"
#include "base/workspace.h"

namespace gradwire {
namespace {

using Floats = std::vector<float>;
using Payload = std::vector<uint8_t>;

Payload Encode(const PayloadCodec& codec, const Floats& p) {
  const auto elems = static_cast<int64_t>(p.size());
  Payload payload(static_cast<size_t>(codec.MaxBytes(elems)));
  AlignedBuffer workspace;
  EXPECT_TRUE(workspace.EnsureBytes(codec.WorkspaceBytes(elems)).ok());
  const EncodeArgs args{
      .grad = FloatView(p.data(), elems),
      .out = {reinterpret_cast<std::byte*>(payload.data()), static_cast<int64_t>(payload.size())},
      .workspace = workspace.bytes()};
  EXPECT_TRUE(codec.Encode(args).ok());
  return payload;
}

Status Decode(const PayloadCodec& codec, const Payload& payload, Floats* out) {
  return codec.Decode(
      {reinterpret_cast<const std::byte*>(payload.data()), static_cast<int64_t>(payload.size())},
      FloatView(out->data(), static_cast<int64_t>(out->size())), 1.0f, nullptr);
}

Floats Decoded(const PayloadCodec& codec, const Payload& payload, size_t elems) {
  Floats out(elems);
  EXPECT_TRUE(Decode(codec, payload, &out).ok());
  return out;
}

TEST(TopkPayload, HasTheBytesOfTheWireFormatPage) {
  const auto codec = MakeTopkPayload(0.4);
  EXPECT_EQ(Encode(*codec, {1, -0.5f, 0.25f, 0, -1}),
            (Payload{0, 0, 0,    0,    0, 0, 0,    0,        // low
                     9, 0, 0,    0,    0, 0, 0,    0,        // high
                     0, 0, 0x80, 0x3f, 0, 0, 0x80, 0xbf}));  // 1 and -1
  EXPECT_EQ(Encode(*codec, {1, NAN, 0.25f, 0, -1}),
            (Payload{2, 0, 0,    0,    0, 0, 0,    0,  // the lowest bits of 0 and 1
                     3, 0, 0,    0,    0, 0, 0,    0,  //
                     0, 0, 0xc0, 0x7f, 0, 0, 0xc0, 0x7f}));
}

// Of each block its share, but of the shortest at least one.
TEST(TopkPayload, SendsTheLargestOfEachBlock) {
  constexpr size_t kBlock = kTopkBlockElems, kElems = 2 * kBlock + 7;
  RandomStream random(1);
  Floats p(kElems);
  // The second block is a thousand times larger.
  for (size_t i = 0; i < kElems; ++i) {
    p[i] = static_cast<float>((random.Unit() - 0.5) * (i / kBlock == 1 ? 1000 : 1));
  }
  const auto codec = MakeTopkPayload(0.01);
  const Floats out = Decoded(*codec, Encode(*codec, p), kElems);
  for (size_t first = 0; first < kElems; first += kBlock) {
    const size_t end = std::min(kElems, first + kBlock);
    Floats magnitudes;
    for (size_t i = first; i < end; ++i) magnitudes.push_back(std::fabs(p[i]));
    std::sort(magnitudes.rbegin(), magnitudes.rend());
    const float least = magnitudes[end - first == kBlock ? 40 : 0];
    for (size_t i = first; i < end; ++i) {
      ASSERT_EQ(out[i], std::fabs(p[i]) >= least ? p[i] : 0) << "element " << i;
    }
  }
}

TEST(TopkPayload, OfAllElementsIsExact) {
  const Floats p = {1, -0.5f, 0.25f, 0, -1, std::numeric_limits<float>::max()};
  const auto codec = MakeTopkPayload(1);
  EXPECT_EQ(Decoded(*codec, Encode(*codec, p), p.size()), p);
}

TEST(TopkPayload, RefusesWhatNoEncoderWrites) {
  const auto codec = MakeTopkPayload(0.4);
  const Payload good = Encode(*codec, {1, -0.5f, 0.25f, 0, -1});
  const Payload spoilt = Encode(*codec, {1, NAN, 0.25f, 0, -1});
  struct Damage {
    const char* what;
    Payload payload;
    size_t at;
    uint8_t value;
  };
  Floats out(5);
  for (Damage damage : {Damage{"an infinite value", good, 18, 0x80},
                        {"one NaN", good, 18, 0xc0},
                        {"an index above", good, 8, 0x11},
                        {"a bit that fills up", good, 15, 0x80},
                        {"a NaN of other bits", spoilt, 16, 1},
                        {"a number among NaN", spoilt, 19, 0x3f},
                        {"a NaN elsewhere", spoilt, 8, 5}}) {
    damage.payload[damage.at] = damage.value;
    if (damage.at == 18) damage.payload[19] = 0x7f;
    EXPECT_EQ(Decode(*codec, damage.payload, &out).code(), gwDataCorrupt) << damage.what;
  }
}

}  // namespace
}  // namespace gradwire
