// The laws of the aggregate, over the whole engine: nothing is lost between steps, all ranks
// receive the same, errors grow with the number of ranks as they should. What is kept back has its
// own laws in laws_feedback_test.cc.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/rng.h"
#include "compress/registry.h"
#include "tests/conformance/law_steps.h"
#include "tests/lib/sanitized.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

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

// Of those with feedback, and without a codec, what is a sum of what is given: momentum adds to it.
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
    LawSteps steps({.world_size = n}, sizes, random());
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
  const std::vector<int> world_sizes =
      kSanitized ? std::vector<int>{1, 3, 4} : std::vector<int>{1, 2, 3, 4, 5, 7, 8};
  for (int n : world_sizes) {
    for (const CodecRow& row : Codecs()) {
      for (const std::string& spec : row.conformance_specs) {
        SCOPED_TRACE(fmt::format("{} ranks, {}", n, spec));
        // Slices, quanta and shards that are not whole, and more ranks than elements.
        LawSteps steps({.world_size = n, .slice_elems = 1024}, {2777, 255, 5, 1}, TestSeed());
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

// The average of signsgd(momentum=) is no part of the sum: where the codec ends, it is gone.
TEST(Laws, WhatAMethodKeepsForItselfIsNeverSent) {
  SCOPED_TRACE(TestSeedText());
  for (const char* next : {"none", "efsign", "signsgd(momentum=0.5)"}) {
    SCOPED_TRACE(next);
    LawSteps steps({.world_size = 3}, {2000}, TestSeed()),
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

// |out - sum|^2 / |sum|^2 of one step.
double RelativeError2(int n, const std::string& spec) {
  constexpr int64_t kElems = 16 * 1024;
  LawSteps steps({.world_size = n, .slice_elems = kElems}, {kElems}, TestSeed() + n);
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
    LawSteps steps({.world_size = 3}, {2000}, TestSeed()),
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
