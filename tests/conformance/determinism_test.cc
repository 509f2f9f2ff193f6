// Bits are a function of what is put in, never of timing: the same operations over a transport that
// delays, refuses and reorders give the same bytes as without, on all ranks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/rng.h"
#include "collectives/schedule.h"
#include "compress/registry.h"
#include "runtime/sim_job.h"
#include "runtime/sim_scenario.h"
#include "tests/lib/sanitized.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

constexpr int kConfigurations = kSanitized ? 250 : 1000;
constexpr int64_t kBoundNs = 60 * kNsPerSecond;

struct Config {
  JobOptions job;
  std::vector<std::string> specs;  // by tensor
  std::vector<int64_t> sizes;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::vector<uint64_t> steps;          // their numbers
  const AlgorithmRow* plain = nullptr;  // a plain collective in each step; null: none
  int64_t plain_count = 0;
  int plain_root = 0;
  uint64_t values = 0;  // seed of the gradients

  static std::string NameOf(const AlgorithmRow* row) {
    return row == nullptr ? "none" : fmt::format("{} {}", row->name, Name(row->collective));
  }
  std::string ToString() const {
    return fmt::format(
        "{} ranks, slices of {}, window {}, {}, sizes {}, specs {}, {} steps by {} and {}, {} of "
        "{}",
        job.world_size, job.slice_elems, job.window, Name(dtype), fmt::join(sizes, " "),
        fmt::join(specs, " "), steps.size(), NameOf(job.exact), NameOf(job.encoded), NameOf(plain),
        plain_count);
  }
};

// All that the registry has, or those with feedback.
std::vector<std::string> Specs(bool feedback_only) {
  std::vector<std::string> specs;
  for (const CodecRow& row : Codecs()) {
    for (const std::string& spec : row.conformance_specs) {
      if (!feedback_only || MakeCodec(spec)->feedback == Feedback::kOn) specs.push_back(spec);
    }
  }
  return specs;
}

// Any row of the registry that fits.
template <typename Fits>
const AlgorithmRow* DrawAlgorithm(RandomStream* random, int world_size, Fits fits) {
  std::vector<const AlgorithmRow*> rows;
  for (const AlgorithmRow& row : Algorithms()) {
    const bool small_enough = row.max_world_size == 0 || world_size <= row.max_world_size;
    if (small_enough && fits(row)) rows.push_back(&row);
  }
  return rows[random->Below(rows.size())];
}

void DrawAlgorithms(RandomStream* random, Config* c) {
  const int n = c->job.world_size;
  for (bool encoded : {false, true}) {
    (encoded ? c->job.encoded : c->job.exact) = DrawAlgorithm(random, n, [&](const auto& row) {
      return row.encoded == encoded && row.collective == Collective::kAllReduce;
    });
  }
  c->plain = DrawAlgorithm(random, n, [](const AlgorithmRow& row) { return !row.encoded; });
  const Collective collective = c->plain->collective;
  if (collective != Collective::kBarrier)
    c->plain_count = static_cast<int64_t>(random->Below(2000));
  if (collective == Collective::kReduce || collective == Collective::kBroadcast)
    c->plain_root = static_cast<int>(random->Below(n));
}

Config Draw(uint64_t seed, uint64_t number) {
  static const std::vector<std::string> all = Specs(false), with_feedback = Specs(true);
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
  DrawAlgorithms(&random, &c);
  // One that keeps a residual, one that is exact, and others.
  c.specs = {with_feedback[random.Below(with_feedback.size())], "none"};
  for (auto more = random.Below(3); more > 0; --more)
    c.specs.push_back(all[random.Below(all.size())]);
  for (size_t t = 0; t < c.specs.size(); ++t) {
    c.sizes.push_back(static_cast<int64_t>(random.Below(random.Below(4) == 0 ? 6000 : 800)));
  }
  c.steps = {1, 2};
  if (random.Below(2) == 0) c.steps.push_back(3);
  return c;
}

using Arrays = std::vector<std::vector<std::byte>>;

// What a rank holds at the end.
struct Held {
  Arrays common;  // of each step, what is the same on all ranks
  Arrays own;     // what is not, then residuals
};

bool SameOnAllRanks(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kBroadcast ||
         collective == Collective::kAllGather;
}

// Runs the steps of a configuration, each with all tensors in one group.
class Job {
 public:
  explicit Job(const Config& c) : c_(c), job_(c.job), memory_(job_.size()), held_(job_.size()) {
    for (int r = 0; r < job_.size(); ++r) {
      for (size_t t = 0; t < c.sizes.size(); ++t) {
        memory_[r].tensors.push_back(
            job_[r].Register("w" + std::to_string(t), c.sizes[t], c.dtype, c.specs[t]));
      }
    }
  }

  // What every rank holds then.
  std::vector<Held> ToTheEnd() {
    for (uint64_t number : c_.steps) {
      const uint16_t turn = job_[0].turn();
      for (int r = 0; r < job_.size(); ++r) Submit({.number = number, .turn = turn}, r);
      const auto done = [&] {
        for (int r = 0; r < job_.size(); ++r) {
          if (job_[r].turn() == turn) return false;
        }
        return true;
      };
      EXPECT_TRUE(job_.RunUntil(done, job_.now_ns() + kBoundNs));
      for (int r = 0; r < job_.size(); ++r) Keep(turn, r);
    }
    for (int r = 0; r < job_.size(); ++r) {
      for (const TensorState* tensor : memory_[r].tensors) {
        const ConstView e = tensor->residual.live();
        EXPECT_EQ(e.elems, tensor->feedback() ? tensor->elems : 0) << tensor->name;
        held_[r].own.emplace_back(e.data, e.data + e.bytes());
      }
    }
    return held_;
  }

 private:
  // One rank's arrays of one step.
  struct Memory {
    std::vector<TensorState*> tensors;
    Arrays grads, outs;
    std::vector<std::byte> plain_send, plain_recv;
  };

  void Submit(const StepContext& step, int r) {
    Memory& m = memory_[r];
    const uint64_t seed = (c_.values * 10 + step.turn) * 1000 + r;
    m.grads.clear();
    m.outs.clear();
    std::vector<SubmittedTensor> group;
    for (size_t t = 0; t < c_.sizes.size(); ++t) {
      m.grads.push_back(DrawValues(seed + t * 20, c_.sizes[t], c_.dtype));
      m.outs.emplace_back(m.grads[t].size());
      group.push_back({m.tensors[t], m.grads[t].data(), m.outs[t].data()});
    }
    job_[r].SubmitTensors(group, c_.op, step);
    if (c_.plain != nullptr) {
      const int64_t elems = c_.plain_count * job_.size();
      m.plain_send = DrawValues(seed + 900, elems, c_.dtype);
      m.plain_recv.assign(m.plain_send.size(), std::byte{});
      job_[r].SubmitRaw({.collective = c_.plain->collective,
                         .send = m.plain_send.data(),
                         .recv = m.plain_recv.data(),
                         .count = c_.plain_count,
                         .dtype = c_.dtype,
                         .op = c_.op,
                         .root = c_.plain_root},
                        *c_.plain, step.turn);
    }
    job_[r].EndStep(step);
  }

  void Keep(uint16_t turn, int r) {
    const TurnResult& result = job_[r].results()[turn];
    EXPECT_EQ(result.outcome, StepOutcome::kCommit) << result.reason.ToString();
    Held& held = held_[r];
    const Memory& m = memory_[r];
    held.common.insert(held.common.end(), m.outs.begin(), m.outs.end());
    if (c_.plain == nullptr) return;
    // What a reduction leaves at the other ranks is undefined.
    if (c_.plain->collective == Collective::kReduce && r != c_.plain_root) return;
    (SameOnAllRanks(c_.plain->collective) ? held.common : held.own).push_back(m.plain_recv);
  }

  const Config& c_;
  SimJob job_;
  std::vector<Memory> memory_;
  std::vector<Held> held_;
};

std::vector<Held> RunSteps(const Config& c) { return Job(c).ToTheEnd(); }

TEST(Determinism, TimingChangesNoBits) {
  SCOPED_TRACE(TestSeedText());
  for (uint64_t number = 0; number < kConfigurations; ++number) {
    Config c = Draw(TestSeed(), number);
    SCOPED_TRACE(fmt::format("configuration {}: {}", number, c.ToString()));
    const std::vector<Held> plain = RunSteps(c);
    c.job.faults = FaultPlan{.seed = number + 1, .delay = 0.3, .full = 0.2, .late_sent = 0.3};
    const std::vector<Held> delayed = RunSteps(c);
    ASSERT_FALSE(HasFailure());
    for (size_t r = 0; r < plain.size(); ++r) {
      ASSERT_EQ(delayed[r].common, plain[r].common) << "timing changes rank " << r;
      ASSERT_EQ(delayed[r].own, plain[r].own) << "timing changes what is rank " << r << "'s own";
      ASSERT_EQ(plain[r].common, plain[0].common) << "rank " << r << " differs";
    }
  }
}

// The dither of a step is its own; what rounds to nearest has none.
TEST(Determinism, StepsDifferExactlyWhereRoundingIsRandom) {
  for (const std::string& spec : Specs(false)) {
    Config c = {.job = {.world_size = 3, .loopback = true}, .specs = {spec}, .sizes = {2000}};
    c.steps = {1, 2};  // one may be exact, before a method starts
    const std::vector<Held> first = RunSteps(c);
    EXPECT_EQ(RunSteps(c)[0].common, first[0].common) << spec;
    EXPECT_EQ(RunSteps(c)[0].own, first[0].own) << spec;
    c.steps = {3, 4};
    const Codec codec = *MakeCodec(spec);
    const CodecTraits& traits = codec.payload ? codec.payload->traits() : codec.carrier->traits();
    const bool random = traits.stochastic;
    EXPECT_EQ(RunSteps(c)[0].common != first[0].common, random) << spec;
  }
}

}  // namespace
}  // namespace gradwire
