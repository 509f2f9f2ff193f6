#include "compress/kernels/lanes/lane_shape.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <set>
#include <vector>

#include "compress/kernels/lanes/lane_ref.h"
#include "compress/kernels/lanes/level_lanes.h"
#include "compress/kernels/lanes/sign_lanes.h"

namespace gradwire {
namespace {

// Of levels of 2, 4 and 8 bits, and of votes, summed over n ranks.
std::vector<LaneShape> ShapesOf(int n) {
  std::vector<LaneShape> shapes = {MakeSignLanes(n).lanes};
  for (int bits : {2, 4, 8}) {
    shapes.push_back(MakeLevelLanes(bits, Rounding::kNearest, n, /*clip=*/0).lanes);
  }
  return shapes;
}

TEST(LaneShape, FieldsAreAsNarrowAsTheLargestSumAllows) {
  for (int n = 1; n <= 65; ++n) {
    EXPECT_EQ(MakeSignLanes(n).lanes.width, std::ceil(std::log2(2 * n + 1))) << n;
    for (int bits : {2, 4, 8}) {
      const LevelLanes shape = MakeLevelLanes(bits, Rounding::kNearest, n, /*clip=*/0);
      const int levels = (1 << (bits - 1)) - 1;
      EXPECT_EQ(shape.largest_sum(), 2 * n * levels);
      EXPECT_EQ(shape.lanes.width, std::ceil(std::log2(2 * n * levels + 1))) << n;
    }
    for (const LaneShape& shape : ShapesOf(n)) {
      EXPECT_LE(shape.width * shape.per_word, 32);
      EXPECT_GT(shape.width * (shape.per_word + 1), 32);
    }
  }
}

TEST(LaneShape, HasTheWidthsAndBlocksOfTheWireFormatPage) {
  const struct {
    int ranks, width, per_word;
    int64_t block;
  } kRows[] = {{1, 2, 16, 256}, {2, 3, 10, 320}, {3, 3, 10, 320},  {4, 4, 8, 256},
               {7, 4, 8, 256},  {8, 5, 6, 288},  {16, 6, 5, 240},  {32, 7, 4, 256},
               {64, 8, 4, 256}, {65, 8, 4, 256}, {128, 9, 3, 240}, {512, 11, 2, 256}};
  for (const auto& row : kRows) {
    const LaneShape shape = MakeSignLanes(row.ranks).lanes;
    EXPECT_EQ(shape.width, row.width) << row.ranks;
    EXPECT_EQ(shape.per_word, row.per_word) << row.ranks;
    EXPECT_EQ(shape.block, row.block) << row.ranks;
  }
  EXPECT_EQ(MakeLevelLanes(8, Rounding::kNearest, 512, 0).lanes.per_word, 1);
}

TEST(LaneShape, BlocksAreWholeGroupsNear256Elements) {
  for (int n = 1; n <= 65; ++n) {
    for (const LaneShape& shape : ShapesOf(n)) {
      EXPECT_EQ(shape.block % shape.group_elems(), 0);
      EXPECT_LE(2 * std::abs(shape.block - kRunElems), shape.group_elems());
      EXPECT_LE(shape.block, kMaxLaneBlock);
      EXPECT_EQ(shape.blocks(0), 0);
      EXPECT_EQ(shape.blocks(1), 1);
      EXPECT_EQ(shape.blocks(shape.block), 1);
      EXPECT_EQ(shape.blocks(shape.block + 1), 2);
    }
  }
}

// As many words as fields are put into, at any number of elements, and a head for each block.
TEST(LaneShape, WordsAreThoseThatFieldsLieIn) {
  for (int n = 1; n <= 65; ++n) {
    for (const LaneShape& shape : ShapesOf(n)) {
      std::set<int64_t> words;
      for (int64_t k = 0; k < 2 * shape.block + 20; ++k) {
        EXPECT_EQ(shape.words(k),
                  static_cast<int64_t>(words.size()) + shape.blocks(k) * shape.head_words)
            << n << " ranks, " << k << " elements";
        words.insert(ref::PlaceOf(shape, k).word);
      }
      EXPECT_EQ(*words.rbegin() + 1, static_cast<int64_t>(words.size())) << "a gap";
    }
  }
}

// Whatever all ranks put into the fields of a group, no sum reaches the next field.
TEST(LaneShape, SumsStayInTheirFields) {
  for (int n = 1; n <= 65; ++n) {
    const SignLanes shape = MakeSignLanes(n);
    std::byte words[4 * kGroupWords] = {};
    const int64_t elems = shape.lanes.group_elems();
    for (int64_t k = 0; k < elems; ++k) {
      const uint32_t sum = k % 2 == 0 ? 0 : static_cast<uint32_t>(shape.largest_sum());
      ref::StoreField(shape.lanes, sum, k, words);
    }
    for (int64_t k = 0; k < elems; ++k) {
      ASSERT_EQ(ref::LoadField(shape.lanes, words, k), k % 2 == 0 ? 0 : 2 * n) << n << ", " << k;
    }
  }
}

// Each block's job begins where the words of the blocks before it end.
TEST(LaneShape, BlocksFollowEachOther) {
  for (int n : {1, 3, 5, 16, 65}) {
    for (const LaneShape& shape : ShapesOf(n)) {
      const int64_t elems = 2 * shape.block + 17;
      const std::vector<std::byte> payload(4 * shape.words(elems));
      std::vector<std::byte> out(4 * elems);
      const DecodeJob job = {.payload = payload.data(),
                             .out = out.data(),
                             .dtype = DType::kFloat32,
                             .to = DecodeTo::kStore,
                             .elems = elems};
      const std::byte* end = payload.data();
      int64_t seen = 0;
      for (int64_t b = 0; b < shape.blocks(elems); ++b) {
        const DecodeJob block = BlockOf(shape, job, b);
        EXPECT_EQ(block.payload, end);
        EXPECT_EQ(block.out, out.data() + 4 * seen);
        end += 4 * shape.words(block.elems);
        seen += block.elems;
      }
      EXPECT_EQ(end, payload.data() + payload.size());
      EXPECT_EQ(seen, elems);
    }
  }
}

}  // namespace
}  // namespace gradwire
