#include "compress/contribution.h"

#include <gtest/gtest.h>

#include <array>

namespace gradwire {
namespace {

constexpr std::array<int64_t, 2> kShape = {64, 32};
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

TEST(ContributionBytes, LanesGrowWithTheRanks) {
  EXPECT_LT(BytesOf("signsgd", 2), BytesOf("signsgd", 256));
}

}  // namespace
}  // namespace gradwire
