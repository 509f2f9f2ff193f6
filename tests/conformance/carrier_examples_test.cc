// What single carrier methods promise: the words of docs/wire_format.md, TernGrad's clipping, sums
// of votes that no ranks can have sent.
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "compress/kernels/dispatch.h"
#include "tests/conformance/carrier_world.h"

namespace gradwire {
namespace {

using Words = std::vector<uint32_t>;

std::vector<EncodeCase> CasesOf(const std::vector<std::vector<float>>& grads, ResidualMode mode) {
  std::vector<EncodeCase> cases;
  for (const std::vector<float>& grad : grads) {
    EncodeCase c{.mode = mode};
    c.grad.resize(4 * grad.size());
    std::memcpy(c.grad.data(), grad.data(), c.grad.size());
    c.e_in.resize(grad.size());
    cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<CarrierRank> StepOf(const std::string& spec, const std::vector<EncodeCase>& cases,
                                const Damage& damage = nullptr) {
  return RunCarriers(*MakeCodec(spec)->carrier, cases, InOrder(static_cast<int>(cases.size())),
                     1.0f, damage);
}

// What a rank put into a round.
Words FilledIn(const CarrierRank& rank, size_t round) {
  Words words(rank.filled[round].size() / 4);
  std::memcpy(words.data(), rank.filled[round].data(), 4 * words.size());
  return words;
}

std::vector<float> OutOf(const CarrierRank& rank) {
  std::vector<float> out(rank.out.size() / 4);
  std::memcpy(out.data(), rank.out.data(), rank.out.size());
  return out;
}

uint32_t& WordAt(std::vector<std::byte>* bytes, size_t word) {
  return reinterpret_cast<uint32_t*>(bytes->data())[word];
}

// 18 elements, of which the last two share words with the first two.
std::vector<float> PageExample(float last) {
  std::vector<float> p = {1, -0.5f, 0.25f, 0, -1};
  p.resize(16);
  p.insert(p.end(), {0.5f, last});
  return p;
}

TEST(CarrierExamples, HaveTheWordsOfTheWireFormatPage) {
  const auto cases = CasesOf({PageExample(-0.0f), PageExample(-0.25f)}, ResidualMode::kSeparate);
  // Levels of 4 bits: 7 and less either way, fields of 5 bits. 7 is a level of 0.
  const auto levels = StepOf("qsgd(bits=4,sum=carrier,feedback=on)", cases);
  EXPECT_EQ(FilledIn(levels[0], 0), Words({0x3f800000}));
  Words expected(16, 7);
  expected[0] = 14 | 11 << 5, expected[1] = 3 | 7 << 5, expected[2] = 9, expected[4] = 0;
  EXPECT_EQ(FilledIn(levels[0], 1), expected);
  // Votes: a head, then fields of 3 bits. 1 is a vote of 0.
  const auto votes = StepOf("signsgd", cases);
  expected.assign(17, 1);
  expected[0] = 0, expected[1] = 2 | 2 << 3, expected[2] = 1 << 3, expected[3] = 2;
  expected[5] = 0;
  EXPECT_EQ(FilledIn(votes[0], 0), expected);
  expected[2] = 0;  // -1 and -1
  EXPECT_EQ(FilledIn(votes[1], 0), expected);
  EXPECT_EQ(OutOf(votes[0])[17], -2) << "0 and -1: one vote is enough";
}

TEST(Terngrad, ClipsAtSoManyRootMeanSquares) {
  // A block with the root mean square 2.
  ASSERT_EQ(MakeCodec("terngrad")->carrier->QuantumElems({}, 1), 256);
  std::vector<float> grad(256);
  grad[9] = -32;
  const auto cases = CasesOf({grad}, ResidualMode::kNone);
  const auto clipped = StepOf("terngrad", cases);
  EXPECT_EQ(OutOf(clipped[0])[9], -5);
  EXPECT_EQ(clipped[0].stats.sum_err2, 27 * 27) << "what is clipped is told as error";
  const auto whole = StepOf("terngrad(clip=0)", cases);
  EXPECT_EQ(OutOf(whole[0])[9], -32);
  EXPECT_EQ(whole[0].stats.sum_err2, 0);
}

// One element is all of its block: what clips a block of any length clips this one.
TEST(Terngrad, ClipsNothingWithTheLargestClip) {
  for (const int ranks : {1, 2, 3, 4, 7, 8, 15, 16, 31, 32}) {
    const int64_t block = MakeCodec("terngrad")->carrier->QuantumElems({}, ranks);
    std::vector<float> grad(static_cast<size_t>(block));
    grad[9] = -32;
    const auto cases = CasesOf(std::vector<std::vector<float>>(ranks, grad), ResidualMode::kNone);
    const auto results = StepOf("terngrad(clip=18)", cases);
    EXPECT_EQ(OutOf(results[0])[9], -32.0f * static_cast<float>(ranks)) << "blocks of " << block;
  }
  EXPECT_EQ(MakeCodec("terngrad(clip=18.1)").status().code(), gwInvalidArgument);
}

// The rank with the larger bound decides the scale of all: values beyond it are clipped to it.
TEST(Terngrad, ClipsToTheLargestBoundOfTheRanks) {
  ASSERT_EQ(MakeCodec("terngrad")->carrier->QuantumElems({}, 2), 320);
  std::vector<float> small(320), large(320);
  small[3] = 1;
  large[4] = 4, large[5] = -4;
  const auto results = StepOf("terngrad", CasesOf({small, large}, ResidualMode::kNone));
  const std::vector<float> out = OutOf(results[0]);
  EXPECT_NEAR(out[4], 2.5 * std::sqrt(32.0 / 320), 1e-6);
  EXPECT_EQ(out[5], -out[4]);
  EXPECT_EQ(out[3], out[4]) << "beyond its own rank's bound and the agreed one";
  EXPECT_FLOAT_EQ(results[0].stats.sum_err2, std::pow(1 - out[3], 2));
  EXPECT_FLOAT_EQ(results[1].stats.sum_err2, 2 * std::pow(4 - out[4], 2));
}

// The deviation about the mean would be zero, and with it the scale.
TEST(Terngrad, ConstantBlocksAreNotLost) {
  const std::vector<float> grad(700, -0.37f);
  for (int ranks : {1, 2, 5}) {
    const auto cases = CasesOf(std::vector<std::vector<float>>(ranks, grad), ResidualMode::kNone);
    const auto results = StepOf("terngrad", cases);
    for (float v : OutOf(results[0])) ASSERT_NEAR(v, -0.37f * static_cast<float>(ranks), 1e-5);
    EXPECT_EQ(results[0].stats.sum_err2, 0);
  }
}

// Squares are taken of values near 1, for which the largest powers of two have no inverse.
TEST(Terngrad, BlocksOfTheLargestFloatsAreNotLost) {
  constexpr float kMost = std::numeric_limits<float>::max();
  const std::vector<float> grad(700, kMost);
  const auto results = StepOf("terngrad", CasesOf({grad}, ResidualMode::kNone));
  for (float v : OutOf(results[0])) ASSERT_FLOAT_EQ(v, kMost);
}

// The average of the steps votes, not the last of them: m' = m / 2 + g / 2.
TEST(Signum, VotesByTheAverageOfTheSteps) {
  constexpr int kRanks = 3;
  const std::vector<float> first = {4, -4, 1, 0, 2}, second = {-1, 1, -3, -1, -2};
  auto cases = CasesOf(std::vector<std::vector<float>>(kRanks, first), ResidualMode::kNone);
  const auto one = StepOf("signsgd(momentum=0.5)", cases);
  EXPECT_EQ(OutOf(one[0]), std::vector<float>({3, -3, 3, 0, 3})) << "begins with zeros";
  EXPECT_EQ(one[0].local, std::vector<float>({2, -2, 0.5f, 0, 1}));
  cases = CasesOf(std::vector<std::vector<float>>(kRanks, second), ResidualMode::kNone);
  for (EncodeCase& c : cases) c.local = one[0].local;
  const auto two = StepOf("signsgd(momentum=0.5)", cases);
  EXPECT_EQ(OutOf(two[0]), std::vector<float>({3, -3, -3, -3, -3}));
  EXPECT_EQ(two[0].local, std::vector<float>({0.5f, -0.5f, -1.25f, -0.5f, -0.5f}));
  EXPECT_EQ(OutOf(StepOf("signsgd", cases)[0]), std::vector<float>({-3, 3, -3, -3, -3}));
}

TEST(Signum, WithoutMomentumItIsSignsgd) {
  EXPECT_EQ(MakeCodec("signsgd(momentum=0)")->spec, "signsgd");
  EXPECT_FALSE(MakeCodec("signsgd(0)")->carrier->KeepsLocal());
  EXPECT_EQ(MakeCodec("signsgd(0.9)")->spec, "signsgd(momentum=0.9)");
  EXPECT_EQ(MakeCodec("signsgd(momentum=1)").status().code(), gwInvalidArgument);
}

class SignsgdOnTarget : public ::testing::TestWithParam<SimdTarget> {
 protected:
  SignsgdOnTarget() { EXPECT_TRUE(ForceTargetForTest(Name(GetParam()))); }
  ~SignsgdOnTarget() override { ForceTargetForTest(""); }
};

TEST_P(SignsgdOnTarget, RefusesMoreThanTheRanksCanSend) {
  constexpr int kRanks = 3;  // sums up to 6 in fields of 3 bits
  constexpr int64_t kBlock = 320, kBlockWords = 1 + 32;
  ASSERT_EQ(MakeCodec("signsgd")->carrier->QuantumElems({}, kRanks), kBlock);
  // A whole block and a tail.
  const auto cases =
      CasesOf(std::vector<std::vector<float>>(kRanks, std::vector<float>(kBlock + 40, 1.0f)),
              ResidualMode::kNone);
  const auto with = [&](size_t word, uint32_t value) {
    return StepOf("signsgd", cases, [&](int, auto* sum) { WordAt(sum, word) = value; })[0]
        .absorbed.code();
  };
  const uint32_t all_for = 06'666'666'666, too_many = 06'666'676'666;
  const uint32_t tail_for = 0666;  // elements 0, 16 and 32 of 40
  for (size_t block : {size_t{0}, size_t{kBlockWords}}) {
    EXPECT_EQ(with(block, kRanks), gwSuccess) << "none of the ranks is finite";
    EXPECT_EQ(with(block, kRanks + 1), gwDataCorrupt);
    EXPECT_EQ(with(block, ~uint32_t{0}), gwDataCorrupt);
    EXPECT_EQ(with(block + 1, tail_for), gwSuccess);
    EXPECT_EQ(with(block + 1, 07), gwDataCorrupt);
  }
  EXPECT_EQ(with(1, all_for), gwSuccess);
  EXPECT_EQ(with(1 + kBlockWords, all_for), gwDataCorrupt) << "fields of no element";
  EXPECT_EQ(with(5, too_many), gwDataCorrupt);
}

INSTANTIATE_TEST_SUITE_P(All, SignsgdOnTarget, ::testing::ValuesIn(SupportedTargets()),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace gradwire
