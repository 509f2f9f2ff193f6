#include "runtime/controller/bounds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/workspace.h"
#include "compress/registry.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

TEST(Distance, WithoutFeedbackIsTheErrorOfTheSum) {
  const Candidate candidate = {.spec = "qsgd", .feedback = false};
  // One rank's own error; with many ranks that of the owner's encoding comes on top.
  EXPECT_DOUBLE_EQ(Distance(candidate, 0.01, {1}), 0.1);
  EXPECT_DOUBLE_EQ(Distance(candidate, 0.04, {4}), 0.2 * std::sqrt(7.0 / 4));
  EXPECT_DOUBLE_EQ(Distance(candidate, 0.04, {.count = 4, .alike = 4}), 0.2 * std::sqrt(19.0 / 16));
  EXPECT_EQ(Distance(candidate, 0, {4}), 0);
}

// A fraction d of what is there is lost in each step, and added to the next gradient: with |g| = 1
// the residual r settles where r^2 = d (1 + r^2).
TEST(Distance, WithFeedbackIsWhereTheResidualSettles) {
  const Candidate candidate = {.spec = "topk", .feedback = true, .errors = ErrorSum::kCommon};
  for (const double lost : {0.03, 0.5, 0.9}) {
    double residual = 0;
    for (int step = 0; step < 1000; ++step) residual = lost * (1 + residual);
    EXPECT_NEAR(Distance(candidate, lost, {4}), std::sqrt(residual), 1e-9);
  }
  EXPECT_EQ(Distance(candidate, 1, {4}), INFINITY);
}

// An owner encodes no part of its own gradient, but the sum: four times the energy of one where
// four gradients are alike, which is 4 of 16 parts.
TEST(Distance, AnOwnerKeepsBackWhatTheSumLoses) {
  const Candidate candidate = {.spec = "qsgd", .feedback = true};
  EXPECT_DOUBLE_EQ(Distance(candidate, 0.5, {.count = 4, .alike = 4}), std::sqrt(3.0 / 4 + 4));
}

// Three of four parts of four gradients, each of energy 1, and their sum.
TEST(LossOf, TellsHowMuchAlikeGradientsAre) {
  const Candidate exact = {.spec = "qsgd", .feedback = true};
  const auto alike = [&](float sum_energy) {
    return *LossOf(exact, {.energy = 3 + sum_energy, .sum_energy = sum_energy}, 4).alike;
  };
  EXPECT_DOUBLE_EQ(alike(4), kNothingInCommon);
  EXPECT_DOUBLE_EQ(alike(16), 4);
  EXPECT_FALSE(LossOf(exact, {.energy = 4}, 4).alike) << "no owner encoded a sum";
  EXPECT_DOUBLE_EQ(alike(4000), 4) << "no more than that of four ranks that are the same";
  EXPECT_EQ(LossOf(exact, {}, 4).relative_error, 0) << "nothing was encoded";
  constexpr float kMost = kMostEnergy;
  EXPECT_FALSE(LossOf(exact, {.energy = kMost, .sum_energy = kMost / 2}, 4).alike) << "too much";
}

// The sum has an energy of 4, and an eighth of what was encoded is lost, half of it before there is
// a sum.
TEST(LossOf, TakesOffWhatErrorsAddToASum) {
  const Candidate candidate = {.spec = "qsgd", .feedback = false};
  const Loss loss = LossOf(candidate, {.energy = 8, .error = 1, .sum_energy = 4.5f}, 4);
  EXPECT_DOUBLE_EQ(*loss.alike, (4.5 - 3.5 / 8) / 3.5 * 3 / 4);
  EXPECT_DOUBLE_EQ(loss.relative_error, 1 / (8 - 3.5 / 8));
}

TEST(ErrorSumOf, IsThatOfTheScheme) {
  const auto of = [](const char* spec) { return ErrorSumOf(*MakeCodec(spec)); };
  EXPECT_EQ(of("bf16"), ErrorSum::kOwned);
  EXPECT_EQ(of("topk(0.1,agreement=owners)"), ErrorSum::kOwned);
  EXPECT_EQ(of("qsgd(bits=8,sum=carrier)"), ErrorSum::kOwn);
  EXPECT_EQ(of("intsgd"), ErrorSum::kOwn);
  EXPECT_EQ(of("randk(0.5,feedback=off)"), ErrorSum::kCommon);
  for (const ErrorSum errors : {ErrorSum::kOwned, ErrorSum::kOwn, ErrorSum::kCommon})
    EXPECT_EQ(FindErrorSum(Name(errors)), errors);
  EXPECT_EQ(FindErrorSum("none"), std::nullopt);
}

// What a payload of `values` decodes to; adds what was encoded and lost of it.
std::vector<float> Decoded(const PayloadCodec& codec, std::span<float> values, Dither dither,
                           EncodeStats* total) {
  AlignedBuffer payload, workspace;
  const auto elems = std::ssize(values);
  EXPECT_TRUE(payload.EnsureBytes(codec.MaxBytes(elems)).ok());
  EXPECT_TRUE(workspace.EnsureBytes(codec.WorkspaceBytes(elems)).ok());
  std::vector<float> out(values.size());
  EncodeStats stats;
  EXPECT_TRUE(codec
                  .Encode({.grad = {reinterpret_cast<const std::byte*>(values.data()), elems,
                                    DType::kFloat32},
                           .out = payload.bytes(),
                           .workspace = workspace.bytes(),
                           .stats = &stats,
                           .dither = dither})
                  .ok());
  EXPECT_TRUE(codec
                  .Decode({payload.data(), stats.bytes},
                          {reinterpret_cast<std::byte*>(out.data()), elems, DType::kFloat32}, 1.0f,
                          nullptr)
                  .ok());
  total->sum_p2 += stats.sum_p2;
  total->sum_err2 += stats.sum_err2;
  return out;
}

// Gradients that correlate by `correlation`, summed as two_shot does: every rank but its owner
// sends a part encoded, the owner encodes its sum. What Distance says of one rank's encoding, over
// the true distance of the result.
double EstimateOverTruth(const std::string& spec, int ranks, double correlation, uint64_t seed) {
  constexpr size_t kPartElems = 8192;
  const Codec codec = *MakeCodec(spec);
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  double truth2 = 0, error2 = 0;
  EncodeStats alone;
  for (int owner = 0; owner < ranks; ++owner) {
    std::vector<double> exact(kPartElems);
    std::vector<float> sum(kPartElems), common(kPartElems), grad(kPartElems);
    for (float& c : common) c = static_cast<float>(normal(random));
    for (int rank = 0; rank < ranks; ++rank) {
      for (size_t i = 0; i < kPartElems; ++i) {
        grad[i] = static_cast<float>(std::sqrt(correlation) * common[i] +
                                     std::sqrt(1 - correlation) * normal(random));
        exact[i] += grad[i];
      }
      const Dither dither = {.tensor = static_cast<uint64_t>(owner),
                             .rank = static_cast<uint32_t>(rank)};
      EncodeStats ignored;
      const std::vector<float> sent =
          rank == owner ? grad
                        : Decoded(*codec.payload, grad, dither, rank == 0 ? &alone : &ignored);
      for (size_t i = 0; i < kPartElems; ++i) sum[i] += sent[i];
    }
    EncodeStats ignored;
    const Dither dither = {.purpose = DitherPurpose::kOwner,
                           .tensor = static_cast<uint64_t>(owner)};
    const std::vector<float> out = Decoded(*codec.payload, sum, dither, &ignored);
    for (size_t i = 0; i < kPartElems; ++i) {
      truth2 += exact[i] * exact[i];
      error2 += (out[i] - exact[i]) * (out[i] - exact[i]);
    }
  }
  const Candidate candidate = {.spec = spec, .feedback = false};
  const Ranks together = {.count = ranks, .alike = 1 + correlation * (ranks - 1)};
  return Distance(candidate, alone.sum_err2 / alone.sum_p2, together) / std::sqrt(error2 / truth2);
}

// From one rank's encoding alone, as a probe tells it. What is made of all ranks' is in
// tests/conformance/error_estimate_test.cc.
TEST(Distance, IsNearTheTruth) {
  SCOPED_TRACE(TestSeedText());
  for (const char* spec : {"bf16", "qsgd(bits=8,feedback=off)", "qsgd(bits=6,feedback=off)",
                           "qsgd(bits=4,feedback=off)"}) {
    for (const int ranks : {2, 4, 8, 16}) {
      for (const double correlation : {0.0, 0.8}) {
        const double ratio = EstimateOverTruth(spec, ranks, correlation, TestSeed());
        EXPECT_NEAR(ratio, 1, 0.08) << spec << " " << ranks << " ranks, " << correlation;
      }
    }
  }
}

}  // namespace
}  // namespace gradwire
