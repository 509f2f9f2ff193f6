// The laws of the aggregate, over the whole engine: nothing is lost between steps, residuals stay
// bounded, errors grow with the number of ranks as they should.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/rng.h"
#include "compress/registry.h"
#include "runtime/sim_job.h"
#include "tests/lib/sanitized.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

constexpr int64_t kBoundNs = 600 * kNsPerSecond;

using Floats = std::vector<float>;

// Independent normal values, two from each pair of draws (Box and Muller).
void DrawNormal(RandomStream* random, Floats* values) {
  for (size_t i = 0; i < values->size(); i += 2) {
    const double radius = std::sqrt(-2 * std::log(1 - random->Unit()));
    const double angle = 2 * M_PI * random->Unit();
    (*values)[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < values->size()) (*values)[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

// float32 tensors on all ranks, and steps over them.
class Steps {
 public:
  Steps(const JobOptions& options, const std::vector<int64_t>& sizes, uint64_t seed)
      : job_(options), sizes_(sizes), random_(seed), tensors_(options.world_size) {
    for (int r = 0; r < job_.size(); ++r) {
      for (size_t t = 0; t < sizes.size(); ++t) {
        tensors_[r].push_back(
            job_[r].Register("w" + std::to_string(t), sizes[t], DType::kFloat32, "none"));
      }
    }
    grads_.assign(options.world_size, std::vector<Floats>(sizes.size()));
    outs_ = grads_;
    Draw();
  }

  int size() const { return job_.size(); }
  void SetSpec(size_t t, const std::string& spec) {
    for (auto& mine : tensors_) JobRank::SetSpec(mine[t], spec);
  }
  // Independent normal gradients.
  void Draw() {
    for (auto& mine : grads_) {
      for (size_t t = 0; t < sizes_.size(); ++t) {
        mine[t].resize(sizes_[t]);
        DrawNormal(&random_, &mine[t]);
      }
    }
  }
  Floats& grad(int rank, size_t t) { return grads_[rank][t]; }
  const Floats& out(int rank, size_t t) const { return outs_[rank][t]; }
  ConstView residual(int rank, size_t t) const { return tensors_[rank][t]->residual.live(); }
  ConstView local(int rank, size_t t) const { return tensors_[rank][t]->local.live(); }

  // One training step with these groups of tensors.
  void Run(const std::vector<std::vector<size_t>>& groups, ReduceOp op = ReduceOp::kSum) {
    const uint16_t turn = job_[0].turn();
    for (int r = 0; r < size(); ++r) {
      const StepContext step = {.number = turn + uint64_t{1}, .turn = turn};
      for (const std::vector<size_t>& group : groups) {
        std::vector<SubmittedTensor> submitted;
        for (size_t t : group) {
          outs_[r][t].assign(sizes_[t], -7);
          submitted.push_back({tensors_[r][t],
                               reinterpret_cast<const std::byte*>(grads_[r][t].data()),
                               reinterpret_cast<std::byte*>(outs_[r][t].data())});
        }
        job_[r].SubmitTensors(submitted, op, step);
      }
      job_[r].EndStep(step);
    }
    const auto done = [&] {
      for (int r = 0; r < size(); ++r) {
        if (job_[r].turn() == turn) return false;
      }
      return true;
    };
    ASSERT_TRUE(job_.RunUntil(done, kBoundNs));
    ASSERT_EQ(job_[0].results()[turn].outcome, StepOutcome::kCommit)
        << job_[0].results()[turn].reason.ToString();
  }

  // sum(g + e) of a tensor, in float64.
  std::vector<double> GivenIn(size_t t) const {
    std::vector<double> sum(sizes_[t]);
    for (int r = 0; r < job_.size(); ++r) {
      for (int64_t i = 0; i < sizes_[t]; ++i) sum[i] += grads_[r][t][i];
    }
    AddResiduals(t, &sum);
    return sum;
  }
  void AddResiduals(size_t t, std::vector<double>* sum) const {
    for (int r = 0; r < job_.size(); ++r) {
      const ConstView e = residual(r, t);
      for (int64_t i = 0; i < e.elems; ++i) (*sum)[i] += e.as<float>()[i];
    }
  }
  // The sum over the ranks of |g + e|.
  double NormsOf(size_t t) const {
    double norms = 0;
    for (int r = 0; r < job_.size(); ++r) {
      const ConstView e = residual(r, t);
      double energy = 0;
      for (int64_t i = 0; i < sizes_[t]; ++i)
        energy += std::pow(grads_[r][t][i] + (e.empty() ? 0.0 : e.as<float>()[i]), 2);
      norms += std::sqrt(energy);
    }
    return norms;
  }
  // Whether so many ranks can sum the tensor by it.
  bool Takes(size_t t, const std::string& spec) const {
    const Codec codec = *MakeCodec(spec);
    return codec.carrier == nullptr ||
           codec.carrier->Check(MetaOf(*tensors_[0][t]), job_.size()).ok();
  }
  double ResidualEnergy(size_t t) const {
    double energy = 0;
    for (int r = 0; r < job_.size(); ++r) {
      const ConstView e = residual(r, t);
      for (int64_t i = 0; i < e.elems; ++i) energy += std::pow(double{e.as<float>()[i]}, 2);
    }
    return energy;
  }

 private:
  SimJob job_;
  const std::vector<int64_t> sizes_;
  RandomStream random_;
  std::vector<std::vector<TensorState*>> tensors_;
  std::vector<std::vector<Floats>> grads_, outs_;  // by rank and tensor
};

bool SameBits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// All tensors in groups drawn anew.
std::vector<std::vector<size_t>> DrawGroups(size_t tensors, RandomStream* random) {
  std::vector<size_t> order(tensors);
  for (size_t t = 0; t < tensors; ++t) order[t] = t;
  std::shuffle(order.begin(), order.end(), *random);
  std::vector<std::vector<size_t>> groups(1);
  for (size_t t : order) {
    if (random->Below(2) == 0 && !groups.back().empty()) groups.emplace_back();
    groups.back().push_back(t);
  }
  return groups;
}

// All specs of the registry that keep something back.
std::vector<std::string> SpecsWithFeedback() {
  std::vector<std::string> specs;
  for (const CodecRow& row : Codecs()) {
    for (const std::string& spec : row.conformance_specs) {
      if (MakeCodec(spec)->feedback == Feedback::kOn) specs.push_back(spec);
    }
  }
  return specs;
}

// Of those, and without a codec, what is a sum of what is given: momentum adds to it.
std::vector<std::string> SpecsThatConserve() {
  std::vector<std::string> specs = SpecsWithFeedback();
  std::erase_if(specs, [](const std::string& spec) {
    const Codec codec = *MakeCodec(spec);
    return codec.carrier != nullptr && codec.carrier->KeepsLocal();
  });
  specs.emplace_back("none");
  return specs;
}

// Codecs, groups and so schemes, shards and owners change from step to step; nothing is lost. The
// tensors are matrices (8 x 375, 32 x 65, 1 x 257, 4 x 225), which low rank takes.
TEST(Laws, ConservationThroughChanges) {
  SCOPED_TRACE(TestSeedText());
  const std::vector<std::string> specs = SpecsThatConserve();
  const std::vector<int64_t> sizes = {3000, 2080, 257, 1, 0, 900};
  RandomStream random(TestSeed());
  for (int n : {2, 3, 5}) {
    Steps steps({.world_size = n}, sizes, random());
    std::vector<std::string> now(sizes.size(), "none");
    for (int number = 0; number < 60; ++number) {
      for (size_t t = 0; t < sizes.size(); ++t) {
        const std::string& spec = specs[random.Below(specs.size())];
        if (random.Below(4) != 0 || !steps.Takes(t, spec)) continue;
        steps.SetSpec(t, now[t] = spec);
      }
      steps.Draw();
      std::vector<std::vector<double>> in;
      std::vector<double> rounding(sizes.size());
      for (size_t t = 0; t < sizes.size(); ++t) {
        in.push_back(steps.GivenIn(t));
        // An element of a product of factors is made of the whole matrix.
        if (MakeCodec(now[t])->min_dims > 0) rounding[t] = 1e-6 * steps.NormsOf(t);
      }
      ASSERT_NO_FATAL_FAILURE(steps.Run(DrawGroups(sizes.size(), &random)));
      for (size_t t = 0; t < sizes.size(); ++t) {
        SCOPED_TRACE(fmt::format("{} ranks, step {}, tensor {}, {}", n, number, t, now[t]));
        const Floats& out = steps.out(0, t);
        std::vector<double> held(out.begin(), out.end());
        steps.AddResiduals(t, &held);
        for (size_t i = 0; i < held.size(); ++i) {
          ASSERT_NEAR(held[i], in[t][i], 1e-5 * n * (1 + std::abs(in[t][i])) + rounding[t]) << i;
        }
      }
    }
  }
}

// Replicas stay replicas: all ranks receive the same bits, whatever the codec.
TEST(Laws, OutputsAreEqualOnAllRanks) {
  SCOPED_TRACE(TestSeedText());
  for (int n : {1, 2, 3, 4, 5, 7, 8}) {
    for (const CodecRow& row : Codecs()) {
      for (const std::string& spec : row.conformance_specs) {
        SCOPED_TRACE(fmt::format("{} ranks, {}", n, spec));
        // Slices, quanta and shards that are not whole, and more ranks than elements.
        Steps steps({.world_size = n, .slice_elems = 1024}, {2777, 255, 5, 1}, TestSeed());
        for (size_t t = 0; t < 4; ++t) steps.SetSpec(t, spec);
        for (int number = 0; number < 3; ++number) {  // from the second on with residuals
          steps.Draw();
          ASSERT_NO_FATAL_FAILURE(steps.Run({{0}, {1, 2, 3}}));
          for (size_t t = 0; t < 4; ++t) {
            for (int r = 1; r < n; ++r) {
              ASSERT_TRUE(SameBits(steps.out(r, t), steps.out(0, t))) << "rank " << r;
            }
            if (n == 1) {
              ASSERT_TRUE(SameBits(steps.out(0, t), steps.grad(0, t))) << "no codec runs";
            }
          }
        }
      }
    }
  }
}

// A codec is switched off: what was kept back is sent, once, and then there is none.
TEST(Laws, WhatWasKeptBackIsSentOnce) {
  SCOPED_TRACE(TestSeedText());
  for (const char* next : {"none", "bf16", "qsgd(bits=8)"}) {
    SCOPED_TRACE(next);
    Steps steps({.world_size = 3}, {2000}, TestSeed());
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
TEST(Laws, WhatWasKeptBackIsVotedOnOnce) {
  SCOPED_TRACE(TestSeedText());
  Steps steps({.world_size = 3}, {2000}, TestSeed());
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

// The average of signsgd(momentum=) is no part of the sum: where the codec ends, it is gone.
TEST(Laws, WhatAMethodKeepsForItselfIsNeverSent) {
  SCOPED_TRACE(TestSeedText());
  for (const char* next : {"none", "efsign", "signsgd(momentum=0.5)"}) {
    SCOPED_TRACE(next);
    Steps steps({.world_size = 3}, {2000}, TestSeed()),
        fresh({.world_size = 3}, {2000}, TestSeed());
    steps.SetSpec(0, "signsgd(momentum=0.9)");
    for (int number = 0; number < 2; ++number) ASSERT_NO_FATAL_FAILURE(steps.Run({{0}}));
    const ConstView average = steps.local(1, 0);
    ASSERT_EQ(average.elems, 2000);
    for (int64_t i = 0; i < 2000; ++i) {
      ASSERT_NEAR(average.as<float>()[i], 0.19f * steps.grad(1, 0)[i], 1e-6) << i;
    }
    steps.SetSpec(0, next);
    fresh.SetSpec(0, next);
    EXPECT_TRUE(steps.local(1, 0).empty());
    ASSERT_NO_FATAL_FAILURE(steps.Run({{0}}));
    ASSERT_NO_FATAL_FAILURE(fresh.Run({{0}}));
    EXPECT_TRUE(SameBits(steps.out(0, 0), fresh.out(0, 0)));
  }
}

// Tensors of 16 bits without codec, one of which still has to send what it kept back: one group.
TEST(Laws, AGroupMaySendResidualsOfSomeOfItsTensors) {
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
TEST(Laws, AnAbortedStepLeavesNothingInWhichRanksDiffer) {
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
  constexpr int kSteps = kSanitized ? 800 : 10'000, kEarly = kSanitized ? 500 : 1'000;
  constexpr int kFilled = kEarly / 2;  // no residual is still on its way up from zero
  Steps steps({.world_size = 3}, {kElems}, TestSeed());
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

// |out - sum|^2 / |sum|^2 of one step.
double RelativeError2(int n, const std::string& spec) {
  constexpr int64_t kElems = 16 * 1024;
  Steps steps({.world_size = n, .slice_elems = kElems}, {kElems}, TestSeed() + n);
  steps.SetSpec(0, spec);
  const std::vector<double> sum = steps.GivenIn(0);
  steps.Run({{0}});
  double err2 = 0, energy = 0;
  for (int64_t i = 0; i < kElems; ++i) {
    err2 += std::pow(steps.out(0, 0)[i] - sum[i], 2), energy += sum[i] * sum[i];
  }
  return err2 / energy;
}

// Contributions are encoded once each and the sum once, at any number of ranks.
TEST(Laws, ErrorDoesNotGrowWithTheNumberOfRanks) {
  SCOPED_TRACE(TestSeedText());
  const double two = RelativeError2(2, "qsgd(bits=4)");
  const double sixteen = RelativeError2(16, "qsgd(bits=4)");
  std::printf("relative squared error of qsgd(bits=4): %.5f at 2 ranks, %.5f at 16, %.2f times\n",
              two, sixteen, sixteen / two);
  EXPECT_GT(two, 0);
  EXPECT_LE(sixteen, 1.7 * two) << "at 2 ranks " << two << ", at 16 " << sixteen;
}

TEST(Laws, AverageIsTheSumTimesOneOverN) {
  SCOPED_TRACE(TestSeedText());
  for (const char* spec : {"none", "qsgd(bits=4)", "bf16", "efsign", "signsgd"}) {
    Steps steps({.world_size = 3}, {2000}, TestSeed()),
        again({.world_size = 3}, {2000}, TestSeed());
    steps.SetSpec(0, spec);
    again.SetSpec(0, spec);
    ASSERT_NO_FATAL_FAILURE(steps.Run({{0}}, ReduceOp::kSum));
    ASSERT_NO_FATAL_FAILURE(again.Run({{0}}, ReduceOp::kAvg));
    for (size_t i = 0; i < 2000; ++i) {
      ASSERT_EQ(again.out(2, 0)[i], steps.out(2, 0)[i] * (1.0f / 3.0f)) << spec << " at " << i;
    }
  }
}

}  // namespace
}  // namespace gradwire
