// Bits are a function of what is put in, never of timing: the same operations over a transport that
// delays, refuses and reorders give the same bytes as without, on all ranks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/rng.h"
#include "runtime/sim_job.h"
#include "runtime/sim_scenario.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

constexpr int kConfigurations = 1000;
constexpr int64_t kBoundNs = 60 * kNsPerSecond;

struct Config {
  JobOptions job;
  std::vector<std::string> specs;  // by tensor
  std::vector<int64_t> sizes;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  uint64_t step = 1;
  uint64_t values = 0;  // seed of the gradients

  std::string ToString() const {
    return fmt::format("{} ranks, slices of {}, window {}, {}, sizes {}, specs {}", job.world_size,
                       job.slice_elems, job.window, Name(dtype), fmt::join(sizes, " "),
                       fmt::join(specs, " "));
  }
};

const std::vector<std::string>& Specs() {
  static const std::vector<std::string> specs = [] {
    std::vector<std::string> all;
    for (const CodecRow& row : Codecs()) {
      all.insert(all.end(), row.conformance_specs.begin(), row.conformance_specs.end());
    }
    return all;
  }();
  return specs;
}

Config Draw(uint64_t seed, uint64_t number) {
  RandomStream random(seed, number);
  constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};
  Config c = {.dtype = kTypes[random.Below(3)], .values = number};
  c.op = random.Below(2) == 0 ? ReduceOp::kSum : ReduceOp::kAvg;
  c.job = {.world_size = static_cast<int>(2 + random.Below(4)),
           .slice_elems = 256 << random.Below(4),
           .window = static_cast<int>(1 + random.Below(4)),
           .seed = static_cast<uint32_t>(number),
           .network = {.fragment_bytes = 256 << random.Below(4)},
           .loopback = true};
  for (auto tensors = 1 + random.Below(4); tensors > 0; --tensors) {
    c.specs.push_back(Specs()[random.Below(Specs().size())]);
    c.sizes.push_back(static_cast<int64_t>(random.Below(random.Below(4) == 0 ? 6000 : 800)));
  }
  return c;
}

// What a rank holds at the end: outputs, then residuals.
using Held = std::vector<std::vector<std::byte>>;

// One step with all tensors in one group; what every rank holds then.
std::vector<Held> RunStep(const Config& c) {
  SimJob job(c.job);
  const auto n = static_cast<size_t>(job.size());
  std::vector<Held> grads(n), held(n);
  for (int r = 0; r < job.size(); ++r) {
    std::vector<SubmittedTensor> group;
    for (size_t t = 0; t < c.sizes.size(); ++t) {
      TensorState* tensor =
          job[r].Register("w" + std::to_string(t), c.sizes[t], c.dtype, c.specs[t]);
      grads[r].push_back(DrawValues(c.values * 1000 + t * 20 + r, c.sizes[t], c.dtype));
      held[r].emplace_back(grads[r][t].size());
      group.push_back({tensor, grads[r][t].data(), held[r][t].data()});
    }
    const StepContext step = {.number = c.step};
    job[r].SubmitTensors(group, c.op, step);
    job[r].EndStep(step);
  }
  const auto done = [&] {
    for (int r = 0; r < job.size(); ++r) {
      if (job[r].turn() == 0) return false;
    }
    return true;
  };
  EXPECT_TRUE(job.RunUntil(done, kBoundNs));
  for (int r = 0; r < job.size(); ++r) {
    EXPECT_EQ(job[r].results()[0].outcome, StepOutcome::kCommit)
        << job[r].results()[0].reason.ToString();
    for (const TensorState* tensor : job[r].tensors().All()) {
      const ConstView e = tensor->residual.live();
      held[r].emplace_back(e.data, e.data + e.bytes());
    }
  }
  return held;
}

TEST(Determinism, TimingChangesNoBits) {
  SCOPED_TRACE(TestSeedText());
  for (uint64_t number = 0; number < kConfigurations; ++number) {
    Config c = Draw(TestSeed(), number);
    SCOPED_TRACE(fmt::format("configuration {}: {}", number, c.ToString()));
    const std::vector<Held> plain = RunStep(c);
    c.job.faults = FaultPlan{.seed = number + 1, .delay = 0.3, .full = 0.2, .late_sent = 0.3};
    const std::vector<Held> delayed = RunStep(c);
    ASSERT_FALSE(HasFailure());
    for (size_t r = 0; r < plain.size(); ++r) {
      for (size_t i = 0; i < plain[r].size(); ++i) {
        ASSERT_EQ(delayed[r][i], plain[r][i]) << "rank " << r << " array " << i;
        if (i >= c.sizes.size()) continue;  // residuals are each rank's own
        ASSERT_EQ(plain[r][i], plain[0][i]) << "rank " << r << " differs";
      }
    }
  }
}

// The dither of a step is its own; what rounds to nearest has none.
TEST(Determinism, StepsDifferExactlyWhereRoundingIsRandom) {
  for (const std::string& spec : Specs()) {
    Config c = {.job = {.world_size = 3, .loopback = true}, .specs = {spec}, .sizes = {2000}};
    c.step = 1;
    const std::vector<Held> first = RunStep(c);
    ASSERT_EQ(RunStep(c), first) << spec;
    c.step = 2;
    const bool random = spec.starts_with("qsgd") && spec.find("feedback=on") == std::string::npos;
    EXPECT_EQ(RunStep(c)[0][0] != first[0][0], random) << spec;
  }
}

}  // namespace
}  // namespace gradwire
