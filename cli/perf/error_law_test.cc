#include "cli/perf/error_law.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/float16.h"

namespace gradwire {
namespace {

constexpr int kRanks = 4;
constexpr int64_t kElems = 70'000;

std::vector<Pattern> Patterns() {
  std::vector<Pattern> patterns;
  for (int r = 0; r < kRanks; ++r) patterns.push_back(NormalPattern(DType::kFloat32, r));
  return patterns;
}

std::vector<float> TrueSum(const std::vector<Pattern>& patterns) {
  std::vector<float> sum(kElems);
  FillWith(Reduced(patterns, ReduceOp::kSum), 0, FloatView(sum.data(), kElems));
  return sum;
}

ErrorFound Compare(std::string_view spec, const std::vector<float>& out) {
  const StatusOr<ErrorFound> found =
      CompareWithTruth(spec, Patterns(), ReduceOp::kSum, FloatView(out.data(), kElems));
  EXPECT_TRUE(found.ok()) << found.status().ToString();
  return found.ok() ? *found : ErrorFound{.wrong = kElems};
}

TEST(CompareWithTruth, TheTruthIsWithinEveryBound) {
  const std::vector<float> sum = TrueSum(Patterns());
  for (const char* spec : {"none", "bf16", "fp16", "qsgd(bits=4)", "qsgd(bits=8,block=512)"}) {
    const ErrorFound found = Compare(spec, sum);
    EXPECT_EQ(found.wrong, 0) << spec;
    EXPECT_LT(found.relerr, 1e-6) << spec;
  }
}

TEST(CompareWithTruth, QsgdHasEightBitsUnlessItSaysOtherwise) {
  std::vector<float> out = TrueSum(Patterns());
  for (float& v : out) v += 0.5f;
  const int64_t wrong = Compare("qsgd(bits=8)", out).wrong;
  EXPECT_GT(wrong, 0);
  EXPECT_EQ(Compare("qsgd", out).wrong, wrong);
  EXPECT_LT(Compare("qsgd(bits=4)", out).wrong, wrong);
}

TEST(CompareWithTruth, TwiceRoundedSumsAreWithinBf16AndOutsideFp16) {
  const std::vector<Pattern> patterns = Patterns();
  std::vector<float> out(kElems);
  for (int64_t i = 0; i < kElems; ++i) {
    float sum = 0;
    for (const Pattern& p : patterns) {
      sum += FloatFromBf16(Bf16FromFloat(static_cast<float>(p.at(i))));
    }
    out[static_cast<size_t>(i)] = FloatFromBf16(Bf16FromFloat(sum));
  }
  EXPECT_EQ(Compare("bf16", out).wrong, 0);
  EXPECT_GT(Compare("fp16", out).wrong, kElems / 3);
  EXPECT_NEAR(Compare("bf16", out).relerr, 2.2e-3, 5e-4);
}

// Their distance to the truth is no more than what an infinite result may be off.
TEST(CompareWithTruth, InfiniteResultsAreWrong) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> out = TrueSum(Patterns());
  out[7] = kInf;
  for (const char* spec : {"bf16", "randk(density=0.1)", "powersgd"}) {
    EXPECT_GE(Compare(spec, out).wrong, 1) << spec;
  }
  const std::vector<uint16_t> half(kElems, Fp16FromFloat(kInf));
  const ConstView view(reinterpret_cast<const std::byte*>(half.data()), kElems, DType::kFloat16);
  const StatusOr<ErrorFound> found = CompareWithTruth("fp16", Patterns(), ReduceOp::kSum, view);
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->wrong, kElems);
}

TEST(CompareWithTruth, WhatIsChosenIsTheSumOrNothing) {
  std::vector<float> out = TrueSum(Patterns());
  for (int64_t i = 0; i < kElems; ++i) {
    if (i % 10 != 0) out[static_cast<size_t>(i)] = 0;
  }
  for (const char* spec : {"topk(0.1)", "randk(0.1)", "powersgd", "acp"}) {
    EXPECT_EQ(Compare(spec, out).wrong, 0) << spec;
  }
  out[10] += 100;
  EXPECT_EQ(Compare("topk(0.1)", out).wrong, 1);
}

// Sums of some ranks, in the type and unit of the result.
TEST(CompareWithTruth, ChosenElementsAreSumsOfSomeRanks) {
  const std::vector<Pattern> patterns = Patterns();
  std::vector<float> out = TrueSum(patterns);
  for (int64_t i = 0; i < kElems; ++i) {
    float sum = 0;
    for (int r = 0; r < kRanks; ++r) {
      if ((i >> r & 1) != 0) sum += static_cast<float>(patterns[static_cast<size_t>(r)].at(i));
    }
    out[static_cast<size_t>(i)] = sum;
  }
  EXPECT_EQ(Compare("topk(0.1)", out).wrong, 0);
  std::vector<uint16_t> averages;
  for (const float v : out) averages.push_back(Fp16FromFloat(v / kRanks));
  const ConstView view(reinterpret_cast<const std::byte*>(averages.data()), kElems,
                       DType::kFloat16);
  EXPECT_EQ(CompareWithTruth("topk(0.1)", patterns, ReduceOp::kAvg, view)->wrong, 0);
  // Within the sum of the magnitudes, but no such sum.
  for (float& v : out) v *= 0.99f;
  EXPECT_GT(Compare("topk(0.1)", out).wrong, kElems * 9 / 10);
}

// As `none` adds what is too small for topk.
TEST(CompareWithTruth, ChosenSumsMayBeRoundedAtEveryAddition) {
  const std::vector<Pattern> patterns = Patterns();
  std::vector<uint16_t> out;
  for (int64_t i = 0; i < kElems; ++i) {
    float sum = 0;
    for (const Pattern& p : patterns) {
      sum = FloatFromBf16(Bf16FromFloat(sum + static_cast<float>(p.at(i))));
    }
    out.push_back(Bf16FromFloat(sum));
  }
  const ConstView view(reinterpret_cast<const std::byte*>(out.data()), kElems, DType::kBfloat16);
  EXPECT_EQ(CompareWithTruth("topk(0.1)", patterns, ReduceOp::kSum, view)->wrong, 0);
}

TEST(CompareWithTruth, ACodecWithoutALawIsMeasuredButNotJudged) {
  const ErrorFound found = Compare("nobody(0.1)", std::vector<float>(kElems));
  EXPECT_EQ(found.wrong, -1);
  EXPECT_EQ(found.relerr, 1);
}

TEST(CompareWithTruth, TheMajorityIsASignAndNothingIsNoResult) {
  std::vector<float> out = TrueSum(Patterns());
  for (float& value : out) value = value < 0 ? -kRanks : kRanks;
  EXPECT_EQ(Compare("signsgd", out).wrong, 0);
  for (float& value : out) value = -value;
  EXPECT_EQ(Compare("signsgd", out).wrong, kElems);
  for (const char* spec :
       {"signsgd", "topk(0.1)", "randk(0.1)", "powersgd", "acp", "terngrad", "intsgd"}) {
    EXPECT_EQ(Compare(spec, std::vector<float>(kElems)).wrong, kElems) << spec;
  }
}

TEST(CompareWithTruth, FindsSingleElements) {
  for (const char* spec : {"bf16", "qsgd(bits=8)"}) {
    std::vector<float> out = TrueSum(Patterns());
    out[0] = std::numeric_limits<float>::quiet_NaN();
    out[kElems / 2] += 2;
    out[kElems - 1] = std::numeric_limits<float>::infinity();
    EXPECT_EQ(Compare(spec, out).wrong, 3) << spec;
  }
}

// What efsign gives at best: one encoding of the sum.
std::vector<float> Signs(const std::vector<float>& sum) {
  std::vector<float> out;
  for (size_t i = 0; i < sum.size(); ++i) {
    const size_t block = i / 256 * 256, end = std::min(block + 256, sum.size());
    float magnitudes = 0;
    for (size_t k = block; k < end; ++k) magnitudes += std::abs(sum[k]);
    out.push_back(std::copysign(magnitudes / static_cast<float>(end - block), sum[i]));
  }
  return out;
}

TEST(CompareWithTruth, SignsAreJudgedByElementAndAsAWhole) {
  std::vector<float> out = Signs(TrueSum(Patterns()));
  EXPECT_EQ(Compare("efsign", out).wrong, 0);
  EXPECT_NEAR(Compare("efsign", out).relerr, std::sqrt(1 - 0.63662), 0.02);
  out[5] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Compare("efsign", out).wrong, kElems);
  out[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Compare("efsign", out).wrong, 1);
  EXPECT_EQ(Compare("efsign", std::vector<float>(kElems)).wrong, kElems);
}

// Ternary noise is as large as the truth, so the error alone does not tell it from nothing.
TEST(CompareWithTruth, TernaryResultsMustHoldTheTruth) {
  const std::vector<float> sum = TrueSum(Patterns());
  std::vector<float> out = sum;
  for (size_t i = 0; i < out.size(); ++i) out[i] += i % 2 == 0 ? 1.0f : -1.0f;
  EXPECT_EQ(Compare("terngrad", out).wrong, 0);
  EXPECT_EQ(Compare("terngrad", std::vector<float>(kElems)).wrong, kElems);
  for (float& value : out) value = -value;
  EXPECT_EQ(Compare("terngrad", out).wrong, kElems);
}

TEST(CompareWithTruth, AveragesAreJudgedInTheirOwnUnit) {
  std::vector<float> out = TrueSum(Patterns());
  for (float& value : out) value /= kRanks;
  const auto average = [&] {
    return CompareWithTruth("bf16", Patterns(), ReduceOp::kAvg, FloatView(out.data(), kElems));
  };
  EXPECT_EQ(average()->wrong, 0);
  out[7] += 0.5f;
  EXPECT_EQ(average()->wrong, 1);
}

}  // namespace
}  // namespace gradwire
