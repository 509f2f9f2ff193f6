#include "compress/contribution.h"

#include <gtest/gtest.h>

#include <array>

namespace gradwire {
namespace {

constexpr std::array<int64_t, 2> kShape = {64, 32};
constexpr std::array<int64_t, 1> kFlat = {1 << 20};
constexpr TensorMeta kMillion = {.shape = kFlat, .elems = 1 << 20, .dtype = DType::kFloat32};
constexpr TensorMeta kMeta = {.shape = kShape, .elems = 64 * 32, .dtype = DType::kFloat32};

int64_t BytesOf(const char* spec, int world_size) {
  return ContributionBytes(*MakeCodec(spec), kMeta, world_size);
}

TEST(ContributionBytes, AreThoseOfThePayloadOrOfAllRounds) {
  EXPECT_EQ(BytesOf("none", 4), 4 * 64 * 32);
  EXPECT_EQ(BytesOf("bf16", 4), 2 * 64 * 32);
  EXPECT_EQ(BytesOf("efsign", 4), MakeCodec("efsign")->payload->MaxBytes(64 * 32));
  // P of 64 rows, then Q of 32.
  EXPECT_EQ(BytesOf("powersgd(rank=2)", 4), 4 * 2 * (64 + 32));
}

// What an all-reduce moves over one rank's link.
double LinkBytes(const char* spec, const TensorMeta& meta, int world_size) {
  return 2.0 * (world_size - 1) / world_size *
         ContributionBytes(*MakeCodec(spec), meta, world_size);
}

// While speakers name different elements each names a share, and twice as many lists are hardly
// longer. An all-gather would have grown by 15 / 3.
TEST(ContributionBytes, TopkOfManyRanksIsHardlyMoreThanOfFour) {
  const char* const spec = "topk(0.01)";
  EXPECT_LE(LinkBytes(spec, kMillion, 16), 1.35 * LinkBytes(spec, kMillion, 4));
  EXPECT_EQ(BytesOf(spec, 8), BytesOf(spec, 1000)) << "8 speak";
  EXPECT_NEAR(LinkBytes("topk(0.01,agreement=gather)", kMillion, 16),
              5 * LinkBytes("topk(0.01,agreement=gather)", kMillion, 4), 64);
}

TEST(ContributionBytes, LanesGrowWithTheRanks) {
  EXPECT_LT(BytesOf("signsgd", 2), BytesOf("signsgd", 256));
}

}  // namespace
}  // namespace gradwire
