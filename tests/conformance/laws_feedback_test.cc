// The laws of what is kept back, over the whole engine: it stays bounded, is sent once where the
// codec ends, and a step that is aborted leaves none in which ranks differ.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "runtime/sim/sim_job.h"
#include "tests/conformance/law_steps.h"
#include "tests/lib/sanitized.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

// A codec is switched off: what was kept back is sent, once, and then there is none.
TEST(LawsOfResiduals, WhatWasKeptBackIsSentOnce) {
  SCOPED_TRACE(TestSeedText());
  for (const char* next : {"none", "bf16", "qsgd(bits=8)"}) {
    SCOPED_TRACE(next);
    LawSteps steps({.world_size = 3}, {2000}, TestSeed());
    steps.SetSpec(0, "efsign");
    ASSERT_NO_FATAL_FAILURE(steps.Run({{0}}));
    ASSERT_GT(steps.ResidualEnergy(0), 0);
    steps.SetSpec(0, next);
    std::vector<double> in = steps.GivenIn(0);
    ASSERT_NO_FATAL_FAILURE(steps.Run({{0}}));
    EXPECT_TRUE(steps.residual(0, 0).empty());
    double err2 = 0, energy = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      err2 += std::pow(in[i] - steps.out(0, 0)[i], 2), energy += in[i] * in[i];
    }
    EXPECT_LT(err2, 1e-3 * energy) << "the residual is in the sum";
    if (std::string(next) != "none") continue;
    EXPECT_LT(err2, 1e-12 * energy);
    in = steps.GivenIn(0);
    ASSERT_NO_FATAL_FAILURE(steps.Run({{0}}));
    for (size_t i = 0; i < in.size(); ++i) ASSERT_NEAR(steps.out(0, 0)[i], in[i], 1e-5);
  }
}

// What does not estimate the sum takes it too: it is voted on with the gradient.
TEST(LawsOfResiduals, WhatWasKeptBackIsVotedOnOnce) {
  SCOPED_TRACE(TestSeedText());
  LawSteps steps({.world_size = 3}, {2000}, TestSeed());
  steps.SetSpec(0, "efsign");
  ASSERT_NO_FATAL_FAILURE(steps.Run({{0}}));
  ASSERT_GT(steps.ResidualEnergy(0), 0);
  steps.SetSpec(0, "signsgd");
  for (int number = 0; number < 2; ++number) {
    std::vector<int> votes(2000);
    for (int r = 0; r < 3; ++r) {
      const ConstView e = steps.residual(r, 0);
      for (size_t i = 0; i < votes.size(); ++i) {
        const float p = steps.grad(r, 0)[i] + (e.empty() ? 0.0f : e.as<float>()[i]);
        votes[i] += p > 0 ? 1 : -1;
      }
    }
    ASSERT_NO_FATAL_FAILURE(steps.Run({{0}}));
    for (size_t i = 0; i < votes.size(); ++i) {
      ASSERT_EQ(steps.out(0, 0)[i], votes[i] > 0 ? 3 : -3) << "step " << number << " at " << i;
    }
    EXPECT_TRUE(steps.residual(0, 0).empty());
  }
}

// Tensors of 16 bits without codec, one of which still has to send what it kept back: one group.
TEST(LawsOfResiduals, AGroupMaySendResidualsOfSomeOfItsTensors) {
  SimJob job({.world_size = 2});
  constexpr int64_t kElems = 600;
  const std::vector<uint16_t> grad(kElems, 0x3F9D);  // bfloat16: 1.2265625
  std::vector<std::vector<uint16_t>> outs(4, std::vector<uint16_t>(kElems));
  std::vector<double> kept(kElems);
  const auto step = [&](const char* spec) {
    const uint16_t turn = job[0].turn();
    for (int r = 0; r < 2; ++r) {
      std::vector<SubmittedTensor> group;
      for (int t = 0; t < 2; ++t) {
        const std::string name = t == 0 ? "plain" : "kept";
        TensorState* tensor = nullptr;
        for (TensorState* known : job[r].tensors().All()) {
          if (known->name == name) tensor = known;
        }
        if (tensor == nullptr) tensor = job[r].Register(name, kElems, DType::kBfloat16, "none");
        if (t == 1) JobRank::SetSpec(tensor, spec);
        group.push_back({tensor, reinterpret_cast<const std::byte*>(grad.data()),
                         reinterpret_cast<std::byte*>(outs[2 * r + t].data())});
      }
      const StepContext context = {.number = turn + uint64_t{1}, .turn = turn};
      job[r].SubmitTensors(group, ReduceOp::kSum, context);
      job[r].EndStep(context);
    }
    ASSERT_TRUE(
        job.RunUntil([&] { return job[0].turn() > turn && job[1].turn() > turn; }, kBoundNs));
    ASSERT_EQ(job[0].results()[turn].outcome, StepOutcome::kCommit);
  };
  ASSERT_NO_FATAL_FAILURE(step("qsgd(bits=2,feedback=on)"));
  ASSERT_NO_FATAL_FAILURE(step("none"));
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(outs[2 * r], std::vector<uint16_t>(kElems, 0x401D)) << "2.453125, exact";
    EXPECT_EQ(outs[2 * r + 1], outs[1]);
    for (TensorState* tensor : job[r].tensors().All()) {
      EXPECT_FALSE(tensor->residual.allocated());
    }
  }
}

// A step is aborted when one rank has begun an operation with feedback and the other has not; then
// the codec is switched off.
TEST(LawsOfResiduals, AnAbortedStepLeavesNothingInWhichRanksDiffer) {
  for (bool transaction : {true, false}) {
    SimJob job({.world_size = 2, .transaction = transaction});
    constexpr int64_t kElems = 600;
    const std::vector<uint16_t> grad(kElems, 0x3F9D);  // bfloat16: 1.2265625
    std::vector<std::vector<uint16_t>> outs(2, std::vector<uint16_t>(kElems));
    const auto run = [&](const char* spec, bool second_too) {
      const uint16_t turn = job[0].turn();
      const StepContext step = {.number = 1, .turn = turn};
      for (int r = 0; r < 2; ++r) {
        const std::vector<TensorState*> known = job[r].tensors().All();
        TensorState* tensor =
            known.empty() ? job[r].Register("w", kElems, DType::kBfloat16, "none") : known[0];
        JobRank::SetSpec(tensor, spec);
        const SubmittedTensor submitted = {tensor, reinterpret_cast<const std::byte*>(grad.data()),
                                           reinterpret_cast<std::byte*>(outs[r].data())};
        if (r == 0 || second_too) job[r].SubmitTensors({&submitted, 1}, ReduceOp::kSum, step);
        job[r].EndStep(step);
      }
      ASSERT_TRUE(
          job.RunUntil([&] { return job[0].turn() > turn && job[1].turn() > turn; }, kBoundNs));
    };
    ASSERT_NO_FATAL_FAILURE(run("efsign", /*second_too=*/false));
    ASSERT_EQ(job[0].results()[0].outcome, StepOutcome::kAbort);
    ASSERT_NO_FATAL_FAILURE(run("none", /*second_too=*/true));
    ASSERT_EQ(job[0].results()[1].outcome, StepOutcome::kCommit)
        << job[0].results()[1].reason.ToString();
    EXPECT_EQ(outs[0], std::vector<uint16_t>(kElems, 0x401D)) << "2.453125, exact";
    EXPECT_EQ(outs[1], outs[0]);
  }
}

// What is kept back at the most, in units of the energy of one step's gradients: a small multiple
// of what was seen. Of a codec that is not listed it is known only that it must not grow.
double BoundOf(const std::string& spec) {
  struct Bounded {
    const char* spec;
    double bound;
  };
  constexpr Bounded kKnown[] = {{"bf16(feedback=on)", 2e-5},
                                {"qsgd(bits=2,feedback=on)", 20},
                                {"qsgd(bits=4,feedback=on)", 0.1},
                                {"qsgd(bits=8,feedback=on)", 3e-4},
                                {"qsgd(bits=5,block=512,feedback=on)", 0.04},
                                {"qsgd(bits=4,sum=carrier,feedback=on)", 0.1},
                                {"efsign", 4},
                                {"topk(density=0.1)", 8},
                                {"topk(density=0.5)", 1},
                                {"topk(density=0.1,agreement=owners)", 6},
                                {"topk(density=0.02,agreement=gather)", 25},
                                {"topk(density=0.02,agreement=gather,momentum=0.9,warmup=2)", 1000},
                                {"randk(density=0.1)", 30},
                                {"powersgd", 15},
                                {"powersgd(rank=1)", 60},
                                {"powersgd(start_step=1)", 15},
                                {"acp", 15},
                                {"acp(rank=1)", 60},
                                {"acp(start_step=1)", 15}};
  for (const Bounded& known : kKnown) {
    if (spec == known.spec) return known.bound;
  }
  return std::numeric_limits<double>::infinity();
}

class LawsOfFeedback : public testing::TestWithParam<std::string> {};

// Error feedback does not pile up: what is kept back after many steps is what few steps leave.
TEST_P(LawsOfFeedback, ResidualsStayBounded) {
  SCOPED_TRACE(TestSeedText());
  constexpr int64_t kElems = 3 * 256;  // a block for each rank to own
  constexpr int kSteps = kSanitized ? 450 : 10'000, kEarly = kSanitized ? 300 : 1'000;
  constexpr int kFilled = kEarly / 2;  // no residual is still on its way up from zero
  LawSteps steps({.world_size = 3}, {kElems}, TestSeed());
  steps.SetSpec(0, GetParam());
  double most = 0, early = 0, late = 0;  // the latter two means
  for (int number = 0; number < kSteps; ++number) {
    steps.Draw();
    ASSERT_NO_FATAL_FAILURE(steps.Run({{0}}));
    const double energy = steps.ResidualEnergy(0) / (3 * kElems);
    most = std::max(most, energy);
    if (number < kFilled) continue;
    (number < kEarly ? early : late) +=
        energy / (number < kEarly ? kEarly - kFilled : kSteps - kEarly);
  }
  std::printf("%s keeps at most %.3g of the energy of a step's gradients; late / early: %.3f\n",
              GetParam().c_str(), most, late / early);
  EXPECT_GT(early, 0) << "nothing is kept back";
  EXPECT_LT(most, BoundOf(GetParam()));
  EXPECT_LT(late, 1.15 * early) << "it still grows";
}

INSTANTIATE_TEST_SUITE_P(All, LawsOfFeedback, testing::ValuesIn(SpecsWithFeedback()));

}  // namespace
}  // namespace gradwire
