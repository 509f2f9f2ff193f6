#include "collectives/schemes/slice_size.h"

#include <gtest/gtest.h>

#include "compress/registry.h"

namespace gradwire {
namespace {

double BytesOf(const char* spec, DType dtype = DType::kFloat32) {
  return WireBytesPerElem(MakeCodec(spec)->payload.get(), dtype);
}

TEST(SliceSize, AChosenNumberOfElementsHoldsForAll) {
  const SliceSize chosen = {.elems = 768};
  EXPECT_EQ(chosen.ElemsFor(4), 768);
  EXPECT_EQ(chosen.ElemsFor(0.125), 768);
}

TEST(SliceSize, WhatTravelsInFewerBytesHasLongerSlicesByDefault) {
  const SliceSize far = DefaultSliceSize(/*one_host=*/false);
  EXPECT_EQ(far.ElemsFor(BytesOf("none")), 1 << 16);
  EXPECT_EQ(far.ElemsFor(8), 1 << 15);
  EXPECT_EQ(far.ElemsFor(BytesOf("bf16")), 1 << 17);
  // Scales beside the codes: a little more than a byte, so the power of two below.
  EXPECT_EQ(far.ElemsFor(BytesOf("qsgd(bits=8)")), 1 << 17);
  EXPECT_EQ(far.ElemsFor(BytesOf("efsign")), far.elems);
  EXPECT_EQ(DefaultSliceSize(/*one_host=*/true).ElemsFor(4), 1 << 17);
}

// A codec's payload is as long for all types of gradients; what is exact travels in theirs.
TEST(SliceSize, OfWhatIsExactIsByTheTypeOfTheGradients) {
  for (const DType half : {DType::kFloat16, DType::kBfloat16}) {
    EXPECT_EQ(BytesOf("none", half), 2);
    EXPECT_EQ(WireBytesPerElem(nullptr, half), 2);
    EXPECT_EQ(BytesOf("qsgd(bits=8)", half), BytesOf("qsgd(bits=8)"));
  }
  EXPECT_EQ(BytesOf("none"), 4);
}

TEST(SliceSize, NeverLessThanABlockNorMoreThanTheBound) {
  EXPECT_EQ((SliceSize{.elems = 1 << 20, .wire_bytes = 8}).ElemsFor(8), kBlockElems);
  EXPECT_EQ((SliceSize{.elems = 1 << 10, .wire_bytes = 1 << 30}).ElemsFor(1), 1 << 10);
}

}  // namespace
}  // namespace gradwire
