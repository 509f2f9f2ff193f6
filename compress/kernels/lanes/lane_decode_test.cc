// What the decoders of packed lanes refuse, on every target.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "compress/kernels/dispatch.h"
#include "compress/kernels/lanes/level_lanes.h"
#include "compress/kernels/lanes/sign_lanes.h"

namespace gradwire {
namespace {

using Words = std::vector<uint32_t>;

class LaneDecode : public testing::TestWithParam<SimdTarget> {
 protected:
  void SetUp() override { ASSERT_TRUE(ForceTargetForTest(Name(GetParam()))); }
  void TearDown() override { ForceTargetForTest({}); }

  static EncodeJob JobOf(const std::vector<float>& p, Words* words, EncodeStats* stats) {
    return {{.grad = reinterpret_cast<const std::byte*>(p.data()),
             .elems = static_cast<int64_t>(p.size()),
             .stats = stats},
            reinterpret_cast<std::byte*>(words->data())};
  }
  static DecodeJob JobOf(const Words& words, std::vector<float>* out) {
    return {.payload = reinterpret_cast<const std::byte*>(words.data()),
            .out = reinterpret_cast<std::byte*>(out->data()),
            .dtype = DType::kFloat32,
            .to = DecodeTo::kStore,
            .out_scale = 1,
            .elems = static_cast<int64_t>(out->size())};
  }
};

// Bits of word `word` of `fields` that no element of a block has: `elems` of them, from its first.
uint32_t StrayBits(const LaneShape& lanes, int64_t elems, int64_t word) {
  const int64_t in_group = word % kGroupWords;
  const int64_t left = elems - word / kGroupWords * lanes.group_elems();
  uint32_t used = 0;
  for (int j = 0; j < lanes.per_word; ++j) {
    if (kGroupWords * j + in_group < left) used |= lanes.mask() << (j * lanes.width);
  }
  return ~used;
}

// Each bit beside the fields of `words` in turn, of a carrier of at most one block.
template <class Decodes>
void ExpectEachStrayBitRefused(const LaneShape& lanes, int64_t elems, Words words,
                               const Decodes& decodes) {
  ASSERT_TRUE(decodes(words));
  for (size_t w = lanes.head_words; w < words.size(); ++w) {
    const uint32_t stray = StrayBits(lanes, elems, static_cast<int64_t>(w) - lanes.head_words);
    for (int bit = 0; bit < 32; ++bit) {
      if ((stray >> bit & 1) == 0) continue;
      words[w] ^= 1u << bit;
      EXPECT_FALSE(decodes(words)) << elems << " elements, word " << w << ", bit " << bit;
      words[w] ^= 1u << bit;
    }
  }
}

TEST_P(LaneDecode, LevelsRefuseWhatNoEncoderWrites) {
  for (int n : {1, 2, 5, 16}) {
    const LevelLanes shape = MakeLevelLanes(4, Rounding::kNearest, n, /*clip=*/0);
    for (int64_t elems : {shape.lanes.block, shape.lanes.block - 1, int64_t{37}, int64_t{5}}) {
      const std::vector<float> p(elems, 1.0f);
      for (float magnitude : {1.0f, 0.0f, 0x1p100f, HUGE_VALF}) {
        SCOPED_TRACE(std::to_string(n) + " ranks, magnitude " + std::to_string(magnitude));
        uint32_t agreed;
        std::memcpy(&agreed, &magnitude, 4);
        Words words(shape.lanes.words(elems));
        EncodeStats stats;
        ActiveLevelLaneKernels().encode(shape, JobOf(p, &words, &stats), &agreed);
        for (uint32_t& word : words) word *= static_cast<uint32_t>(n);
        ExpectEachStrayBitRefused(shape.lanes, elems, words, [&](const Words& w) {
          std::vector<float> out(elems);
          return ActiveLevelLaneKernels().decode(shape, JobOf(w, &out), &agreed);
        });
      }
    }
  }
}

TEST_P(LaneDecode, SignsRefuseWhatNoEncoderWrites) {
  for (int n : {1, 2, 5, 16}) {
    const SignLanes shape = MakeSignLanes(n);
    for (int64_t elems : {shape.lanes.block, shape.lanes.block - 1, int64_t{37}, int64_t{5}}) {
      for (float value : {1.0f, NAN}) {
        SCOPED_TRACE(std::to_string(n) + " ranks of " + std::to_string(value));
        const std::vector<float> p(elems, value);
        Words words(shape.lanes.words(elems));
        EncodeStats stats;
        ActiveSignLaneKernels().encode(shape, JobOf(p, &words, &stats));
        for (uint32_t& word : words) word *= static_cast<uint32_t>(n);
        ExpectEachStrayBitRefused(shape.lanes, elems, words, [&](const Words& w) {
          std::vector<float> out(elems);
          return ActiveSignLaneKernels().decode(shape, JobOf(w, &out));
        });
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, LaneDecode,
                         testing::ValuesIn(SupportedTargets().begin(), SupportedTargets().end()),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace gradwire
