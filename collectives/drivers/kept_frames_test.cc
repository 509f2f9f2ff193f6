#include "collectives/drivers/kept_frames.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <vector>

namespace gradwire {
namespace {

constexpr int64_t kFragment = 64;
constexpr int64_t kFrame = static_cast<int64_t>(sizeof(FrameHeader)) + kFragment;

class KeptFramesTest : public testing::Test {
 protected:
  Status Keep(int peer, uint16_t turn, uint32_t op_seq, uint8_t value = 0) {
    std::array<std::byte, kFragment> bytes;
    bytes.fill(std::byte{value});
    return kept_.Keep(peer, {.turn = turn, .op_seq = op_seq}, {bytes.data(), kFragment});
  }

  KeptFrames kept_{2, 3 * kFrame};
};

TEST_F(KeptFramesTest, GivesTheFramesOfARunOnceInOrder) {
  ASSERT_TRUE(Keep(0, 1, 5, 10).ok());
  ASSERT_TRUE(Keep(1, 1, 6, 11).ok());
  ASSERT_TRUE(Keep(1, 1, 5, 12).ok());
  const std::vector<KeptFrames::Frame> frames = kept_.Take(1, {.op_seq = 5});
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].peer, 0);
  EXPECT_EQ(frames[0].bytes.data()[kFragment - 1], std::byte{10});
  EXPECT_EQ(frames[1].peer, 1);
  EXPECT_EQ(frames[1].bytes.data()[0], std::byte{12});
  EXPECT_TRUE(kept_.Take(1, {.op_seq = 5}).empty());
  EXPECT_TRUE(kept_.Take(2, {.op_seq = 6}).empty()) << "another turn's";
  EXPECT_EQ(kept_.Take(1, {.op_seq = 6}).size(), 1u);
}

TEST_F(KeptFramesTest, EachPeerHasRoomOfItsOwnUntilItsFramesAreTaken) {
  for (uint32_t op = 0; op < 3; ++op) ASSERT_TRUE(Keep(0, 1, op).ok());
  EXPECT_EQ(Keep(0, 1, 3).code(), gwMismatch);
  EXPECT_TRUE(Keep(1, 1, 3).ok());
  EXPECT_EQ(kept_.Take(1, {.op_seq = 3}).size(), 1u) << "what was refused is not kept";
  EXPECT_EQ(kept_.Take(1, {.op_seq = 0}).size(), 1u);
  EXPECT_TRUE(Keep(0, 1, 4).ok());
  EXPECT_EQ(Keep(0, 1, 5).code(), gwMismatch);
}

TEST_F(KeptFramesTest, DropsTurns) {
  for (const uint16_t turn : {1, 2, 3}) ASSERT_TRUE(Keep(0, turn, 0).ok());
  kept_.Drop(1);
  EXPECT_TRUE(kept_.Take(1, {}).empty());
  kept_.DropAllBut(3);
  EXPECT_TRUE(kept_.Take(2, {}).empty());
  EXPECT_EQ(kept_.Take(3, {}).size(), 1u);
  for (uint32_t op = 0; op < 3; ++op) EXPECT_TRUE(Keep(0, 4, op).ok()) << "their room is free";
}

TEST_F(KeptFramesTest, VisitsATurnInOrderOfRuns) {
  for (const uint32_t op : {9u, 4u, 7u}) ASSERT_TRUE(Keep(0, 1, op).ok());
  ASSERT_TRUE(Keep(1, 2, 1).ok());
  std::vector<uint32_t> seen;
  kept_.ForEach(1, [&](int peer, const RunKey& key) {
    EXPECT_EQ(peer, 0);
    seen.push_back(key.op_seq);
    return seen.size() < 2;
  });
  EXPECT_EQ(seen, (std::vector<uint32_t>{4, 7}));
}

}  // namespace
}  // namespace gradwire
