#include "collectives/schemes/part.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"
#include "compress/registry.h"

namespace gradwire {
namespace {

std::vector<TensorPart> PartsOf(const std::vector<int64_t>& sizes, const Codec* codec = nullptr) {
  std::vector<TensorPart> parts;
  for (int64_t elems : sizes) {
    parts.push_back({.grad = {nullptr, elems, DType::kFloat32},
                     .codec = codec == nullptr ? nullptr : codec->payload.get()});
  }
  return parts;
}

// Every element once, in order; no slice above its bound; inner borders at multiples of `cut`.
void CheckSlices(const std::vector<TensorPart>& parts, int64_t slice_elems, int64_t cut) {
  int part = 0;
  int64_t at = 0;
  const auto skip_done = [&] {
    while (part < static_cast<int>(parts.size()) && at == parts[part].grad.elems) ++part, at = 0;
  };
  for (const std::vector<Piece>& slice : CutIntoSlices(parts, slice_elems)) {
    ASSERT_FALSE(slice.empty());
    int64_t padded = 0;
    for (const Piece& piece : slice) {
      skip_done();
      ASSERT_EQ(piece.part, part);
      ASSERT_EQ(piece.first, at);
      ASSERT_GT(piece.elems, 0);
      ASSERT_EQ(piece.first % cut, 0);
      padded += (piece.elems + kCutElems - 1) / kCutElems * kCutElems;
      at += piece.elems;
    }
    ASSERT_LE(padded, slice_elems);
  }
  skip_done();
  ASSERT_EQ(part, static_cast<int>(parts.size()));
}

TEST(CutIntoSlices, CoversEveryElementOnce) {
  RandomStream random(1);
  for (int round = 0; round < 500; ++round) {
    std::vector<int64_t> sizes(1 + random.Below(6));
    for (int64_t& elems : sizes) elems = random.Below(4) == 0 ? 0 : random.Below(3000);
    const int64_t slice_elems = kCutElems * (1 + random.Below(8));
    ASSERT_NO_FATAL_FAILURE(CheckSlices(PartsOf(sizes), slice_elems, kCutElems));
  }
}

// An element's payload must not depend on where slices begin.
TEST(CutIntoSlices, CutsBetweenTheCodecsBlocks) {
  const StatusOr<Codec> codec = MakeCodec("qsgd(bits=4,block=768)");
  ASSERT_TRUE(codec.ok());
  RandomStream random(2);
  for (int round = 0; round < 500; ++round) {
    std::vector<int64_t> sizes(1 + random.Below(6));
    for (int64_t& elems : sizes) elems = random.Below(5000);
    const int64_t slice_elems = kCutElems * (3 + random.Below(8));
    ASSERT_NO_FATAL_FAILURE(CheckSlices(PartsOf(sizes, &*codec), slice_elems, 768));
  }
}

TEST(CutIntoSlices, ABlockIsNeverCut) {
  const StatusOr<Codec> codec = MakeCodec("qsgd(bits=4,block=4096)");
  ASSERT_TRUE(codec.ok());
  const auto slices = CutIntoSlices(PartsOf({9000, 300}, &*codec), 512);
  ASSERT_EQ(slices.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(slices[i][0].first, static_cast<int64_t>(i) * 4096);
  ASSERT_EQ(slices[2].size(), 2u) << "the rest of the slice is used";
}

// Also where the others fill their slices, and wherever in the group they are.
TEST(CutIntoSlices, RidersNeedNoSliceOfTheirOwn) {
  const Codec topk = *MakeCodec("topk(0.01)"), none = *MakeCodec("none");
  constexpr int64_t kSliceElems = 1024;
  const auto part_of = [](const Codec& codec, int64_t elems, bool rides) {
    return TensorPart{
        .grad = {nullptr, elems, DType::kFloat32}, .method = codec.carrier.get(), .rides = rides};
  };
  const TensorPart rider = part_of(none, 1000, true);
  for (int64_t whole : {int64_t{300}, kSliceElems, 4 * kSliceElems}) {
    const TensorPart matrix = part_of(topk, whole, false);
    const auto slices = CutIntoSlices(std::vector{rider, matrix, rider}, kSliceElems);
    ASSERT_EQ(slices.size(), 1u) << whole;
    ASSERT_EQ(slices[0].size(), 3u);
    EXPECT_EQ(slices[0][0].elems, whole);
    for (size_t i : {1, 2}) EXPECT_EQ(slices[0][i].elems, 1000);
  }
  const auto alone = CutIntoSlices(std::vector{part_of(topk, 0, false), rider}, kSliceElems);
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_EQ(alone[0][0].part, 1);
}

TEST(CutElemsOf, IsWithinItsBoundForEveryCodec) {
  for (const CodecRow& row : Codecs()) {
    for (const std::string& spec : row.conformance_specs) {
      const StatusOr<Codec> codec = MakeCodec(spec);
      ASSERT_TRUE(codec.ok());
      if (codec->payload != nullptr) {
        EXPECT_LE(CutElemsOf({.codec = codec->payload.get()}), kMaxCutElems) << spec;
        continue;
      }
      for (int n = 1; n <= 300; ++n) {
        const int64_t quantum = codec->carrier->QuantumElems({}, n);
        EXPECT_LE(CutElemsOf({.quantum_elems = quantum}), kMaxCutElems) << spec << ", " << n;
      }
    }
  }
}

TEST(CutIntoSlices, NothingGivesNoSlice) {
  EXPECT_TRUE(CutIntoSlices(PartsOf({0, 0}), 1024).empty());
}

}  // namespace
}  // namespace gradwire
