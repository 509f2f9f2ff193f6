#include "tests/conformance/determinism_world.h"

#include <fmt/format.h>

#include <utility>

#include "base/rng.h"
#include "compress/registry.h"
#include "runtime/sim/sim_scenario.h"

namespace gradwire {
namespace {

constexpr int64_t kBoundNs = 60 * kNsPerSecond;

// Any row of the registry that fits.
template <typename Fits>
const AlgorithmRow* DrawAlgorithm(RandomStream* random, Fits fits) {
  std::vector<const AlgorithmRow*> rows;
  for (const AlgorithmRow& row : Algorithms()) {
    if (fits(row)) rows.push_back(&row);
  }
  return rows[random->Below(rows.size())];
}

void DrawAlgorithms(RandomStream* random, StepsConfig* c) {
  const int n = c->job.world_size;
  for (bool encoded : {false, true}) {
    (encoded ? c->job.encoded : c->job.exact) = DrawAlgorithm(random, [&](const auto& row) {
      return row.encoded == encoded && row.collective == Collective::kAllReduce;
    });
  }
  c->plain = DrawAlgorithm(random, [](const AlgorithmRow& row) { return !row.encoded; });
  const Collective collective = c->plain->collective;
  if (collective != Collective::kBarrier)
    c->plain_count = static_cast<int64_t>(random->Below(2000));
  if (collective == Collective::kReduce || collective == Collective::kBroadcast)
    c->plain_root = static_cast<int>(random->Below(n));
}

std::string NameOf(const AlgorithmRow* row) {
  return row == nullptr ? "none" : fmt::format("{} {}", row->name, Name(row->collective));
}

std::string Describe(const StepsConfig& c) {
  return fmt::format(
      "{} ranks, slices of {}, window {}, {}, sizes {}, specs {}, {} steps by {} and {}, {} of {}",
      c.job.world_size, c.job.slice_elems, c.job.window, Name(c.dtype), fmt::join(c.sizes, " "),
      fmt::join(c.specs, " "), c.steps.size(), NameOf(c.job.exact), NameOf(c.job.encoded),
      NameOf(c.plain), c.plain_count);
}

StepsConfig Draw(uint64_t seed, uint64_t number) {
  static const std::vector<std::string> all = ConformanceSpecs(false),
                                        with_feedback = ConformanceSpecs(true);
  RandomStream random(seed, number);
  constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};
  StepsConfig c = {.dtype = kTypes[random.Below(3)], .values = number};
  c.op = random.Below(2) == 0 ? ReduceOp::kSum : ReduceOp::kAvg;
  c.job = {.world_size = static_cast<int>(2 + random.Below(4)),
           .slice_elems = 256 << random.Below(4),
           .window = static_cast<int>(random.Below(5)),
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

bool SameOnAllRanks(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kBroadcast ||
         collective == Collective::kAllGather;
}

// Runs the steps of a configuration, each with all tensors in one group.
class Job {
 public:
  explicit Job(const StepsConfig& c) : c_(c), job_(c.job), memory_(job_.size()) {
    run_.ranks.resize(job_.size());
    for (int r = 0; r < job_.size(); ++r) {
      for (size_t t = 0; t < c.sizes.size(); ++t) {
        memory_[r].tensors.push_back(
            job_[r].Register("w" + std::to_string(t), c.sizes[t], c.dtype, c.specs[t]));
      }
    }
  }

  StepsRun ToTheEnd() {
    for (uint64_t number : c_.steps) {
      const uint16_t turn = job_[0].turn();
      for (int r = 0; r < job_.size(); ++r) Submit({.number = number, .turn = turn}, r);
      const auto done = [&] {
        for (int r = 0; r < job_.size(); ++r) {
          if (job_[r].turn() == turn) return false;
        }
        return true;
      };
      if (!job_.RunUntil(done, job_.now_ns() + kBoundNs)) {
        Complain(fmt::format("step {} does not end", number));
        break;
      }
      for (int r = 0; r < job_.size(); ++r) Keep(turn, r);
    }
    for (int r = 0; r < job_.size(); ++r) {
      for (const TensorState* tensor : memory_[r].tensors) {
        const ConstView e = tensor->residual.live();
        if (e.elems != (tensor->feedback() ? tensor->elems : 0)) {
          Complain(fmt::format("the residual of {} has {} elements", tensor->name, e.elems));
        }
        run_.ranks[r].own.emplace_back(e.data, e.data + e.bytes());
      }
    }
    return std::move(run_);
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

  void Complain(const std::string& what) {
    if (run_.complaint.empty()) run_.complaint = what;
  }

  void Keep(uint16_t turn, int r) {
    const TurnResult& result = job_[r].results()[turn];
    if (result.outcome != StepOutcome::kCommit) Complain(result.reason.ToString());
    Held& held = run_.ranks[r];
    const Memory& m = memory_[r];
    held.common.insert(held.common.end(), m.outs.begin(), m.outs.end());
    if (c_.plain == nullptr) return;
    // What a reduction leaves at the other ranks is undefined.
    if (c_.plain->collective == Collective::kReduce && r != c_.plain_root) return;
    (SameOnAllRanks(c_.plain->collective) ? held.common : held.own).push_back(m.plain_recv);
  }

  const StepsConfig& c_;
  SimJob job_;
  std::vector<Memory> memory_;
  StepsRun run_;
};

// Where they differ; empty: nowhere.
std::string Compare(const StepsRun& plain, const StepsRun& delayed) {
  for (const StepsRun* run : {&plain, &delayed}) {
    if (!run->complaint.empty()) return run->complaint;
  }
  for (size_t r = 0; r < plain.ranks.size(); ++r) {
    if (delayed.ranks[r].common != plain.ranks[r].common)
      return fmt::format("timing changes rank {}", r);
    if (delayed.ranks[r].own != plain.ranks[r].own)
      return fmt::format("timing changes what is rank {}'s own", r);
    if (plain.ranks[r].common != plain.ranks[0].common)
      return fmt::format("rank {} differs from rank 0", r);
  }
  return "";
}

}  // namespace

StepsRun RunSteps(const StepsConfig& config) { return Job(config).ToTheEnd(); }

std::vector<std::string> ConformanceSpecs(bool feedback_only) {
  std::vector<std::string> specs;
  for (const CodecRow& row : Codecs()) {
    for (const std::string& spec : row.conformance_specs) {
      if (!feedback_only || MakeCodec(spec)->feedback == Feedback::kOn) specs.push_back(spec);
    }
  }
  return specs;
}

std::string CheckTiming(uint64_t seed, uint64_t number) {
  StepsConfig c = Draw(seed, number);
  const StepsRun plain = RunSteps(c);
  c.job.faults = FaultPlan{.seed = number + 1, .delay = 0.3, .full = 0.2, .late_sent = 0.3};
  const std::string difference = Compare(plain, RunSteps(c));
  if (difference.empty()) return "";
  return fmt::format("configuration {} of seed {}: {}: {}", number, seed, Describe(c), difference);
}

}  // namespace gradwire
