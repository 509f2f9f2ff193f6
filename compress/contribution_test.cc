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

TEST(LongestRoundBytes, AreThoseOfTheLargerFactor) {
  EXPECT_EQ(LongestRoundBytes(*MakeCodec("powersgd(rank=2)"), kMeta, 4), 4 * 2 * 64);
}

// What an all-reduce moves over one rank's link.
double OverLink(int64_t bytes, int world_size) {
  return 2.0 * (world_size - 1) / world_size * static_cast<double>(bytes);
}

constexpr const char* kTopk = "topk(0.01)";
constexpr uint32_t kFirstStep = 0, kAllAgree = kMillion.elems / 100;  // quotas

int64_t BytesOfMillion(const char* spec, int world_size) {
  return ContributionBytes(*MakeCodec(spec), kMillion, world_size);
}

// Of topk by speakers in a state: the quota, then who speaks first.
int64_t BytesOfTopk(int world_size, uint32_t quota) {
  const std::array<uint32_t, 2> state = {quota, 0};
  return ContributionBytes(*MakeCodec(kTopk), kMillion, world_size,
                           {reinterpret_cast<const std::byte*>(state.data()), sizeof state});
}

// While speakers name different elements each names a share, and twice as many lists are hardly
// longer. An all-gather would have grown by 15 / 3.
TEST(ContributionBytes, TopkOfManyRanksIsHardlyMoreThanOfFour) {
  EXPECT_LE(OverLink(BytesOfTopk(16, kFirstStep), 16),
            1.35 * OverLink(BytesOfTopk(4, kFirstStep), 4));
  EXPECT_EQ(BytesOf(kTopk, 8), BytesOf(kTopk, 1000)) << "8 speak";
  const char* const gather = "topk(0.01,agreement=gather)";
  EXPECT_NEAR(OverLink(BytesOfMillion(gather, 16), 16), 5 * OverLink(BytesOfMillion(gather, 4), 4),
              64);
}

// As docs/algorithms.md has it. Where all name the same, each of twice as many lists is a whole
// one; what is to be expected lies between.
TEST(ContributionBytes, TopkGrowsWithTheAgreementOfItsSpeakers) {
  EXPECT_NEAR(OverLink(BytesOfTopk(16, kAllAgree), 16) / OverLink(BytesOfTopk(4, kAllAgree), 4),
              1.90, 0.01);
  EXPECT_NEAR(OverLink(BytesOfMillion(kTopk, 16), 16) / OverLink(BytesOfMillion(kTopk, 4), 4), 1.41,
              0.01);
  const auto bits = [](int64_t bytes) { return 8.0 * static_cast<double>(bytes) / (1 << 20); };
  EXPECT_NEAR(bits(BytesOfTopk(8, kFirstStep)), 0.44, 0.01);
  EXPECT_NEAR(bits(BytesOfMillion(kTopk, 8)), 0.53, 0.01);
  EXPECT_NEAR(bits(BytesOfTopk(8, kAllAgree)), 1.01, 0.01);
}

TEST(ContributionBytes, LanesGrowWithTheRanks) {
  EXPECT_LT(BytesOf("signsgd", 2), BytesOf("signsgd", 256));
}

}  // namespace
}  // namespace gradwire
