// For tests: a training job that Decide steers.
#ifndef GRADWIRE_RUNTIME_CONTROLLER_DECIDE_WORLD_H_
#define GRADWIRE_RUNTIME_CONTROLLER_DECIDE_WORLD_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "runtime/controller/decide.h"
#include "runtime/controller/knowledge.h"
#include "runtime/controller/plan.h"
#include "runtime/spec/auto_spec.h"

namespace gradwire {

struct WorldCandidate {
  const char* spec;
  bool feedback;
  double bytes_per_elem, codec_us_per_elem, relative_error;
};
inline constexpr WorldCandidate kCandidates[] = {{"none", false, 4, 0, 0},
                                                 {"bf16", false, 2, 0.0003, 2e-6},
                                                 {"qsgd(bits=8)", false, 1.02, 0.001, 1e-4},
                                                 {"qsgd(bits=4)", true, 0.52, 0.001, 0.03}};
inline constexpr int kLadder = static_cast<int>(std::size(kCandidates));

// What sensors tell over what is.
struct Lies {
  double busy = 1, compute = 1, ready = 1, codec = 1, error = 1;
};

// A training run as it "is": slices of each tensor go through a processor that encodes and a wire
// that sends, each one after the other. Not the model's formulas.
class DecisionWorld {
 public:
  double us_per_byte = 0.01;
  double latency_us = 20;
  double message_us = 0;
  double compute_us = 20000;
  double other_us = 0;          // of a step, whatever its plan
  double copy_us_per_byte = 0;  // of a processor that computing waits for; not told of
  double noise = 0.0;
  double every_second = 1;            // by how much longer every second step computes
  bool misses_telling_steps = false;  // no tensor is submitted in a step that tells of them
  double none_us_per_elem = 0;        // told of exact sums, as where they send along what was kept
  // That the first step takes longer after one that kept something back.
  double flush_us_per_elem = 0;
  Lies lies;
  double error_factor = 1;        // of the errors
  double first_error_factor = 1;  // of those of the first tensor besides; no probe sees it
  double error_bound = 0.1;
  // A codec's time in training over that in a probe.
  std::array<double, kLadder> training_factor = {1, 1, 1, 1};
  double call_us = 0;  // that encoding a tensor takes besides, whatever its size; in no probe
  double disturbed_probes = 0;  // share of them, which take kDisturbance times as long
  double small_probes = 0;  // share of those of a piece so small that all its time is the call's

  explicit DecisionWorld(const std::vector<int64_t>& elems, uint64_t seed = 1) : random_(seed) {
    job_ = {.world_size = 4, .slice_elems = kSlice};
    for (size_t t = 0; t < elems.size(); ++t) {
      JobTensor tensor = {.id = t, .name = "t" + std::to_string(t), .elems = elems[t]};
      for (int c = 0; c < kLadder; ++c) {
        const double bytes = 1.5 * kCandidates[c].bytes_per_elem * static_cast<double>(elems[t]);
        const bool is_short = c == kNoneRung && elems[t] <= kFewElems;
        tensor.ladder.push_back({c, bytes, is_short ? 2.0 : 6.0});
      }
      job_.tensors.push_back(tensor);
    }
    plan_a_ = plan_b_ = Plan(elems.size(), kBf16Rung);
  }

  const JobFacts& Job() {
    job_.candidates.clear();
    for (const WorldCandidate& c : kCandidates)
      job_.candidates.push_back({c.spec, c.feedback, c.feedback ? 1.0 : error_bound});
    return job_;
  }

  double StepUs(const Plan& plan) const { return Walk(plan).step_us; }
  double NoneUs() const { return StepUs(Plan(job_.tensors.size(), 0)); }
  double BestUniformUs() const {
    double best = NoneUs();
    for (uint8_t rung = 1; rung < kLadder; ++rung)
      best = std::min(best, StepUs(Plan(job_.tensors.size(), rung)));
    return best;
  }

  // One step under the plan in effect, and what Decide makes of it. Returns its time.
  double Step() {
    const uint16_t turn = turn_++;
    for (; !orders_.empty() && orders_.front().from_turn == turn; orders_.erase(orders_.begin())) {
      from_turn_ = turn, in_a_row_ = orders_.front().in_a_row;
      plan_a_ = orders_.front().a, plan_b_ = orders_.front().b;
    }
    const Plan& plan = Running(turn);
    Walked walked = Walk(plan);
    std::lognormal_distribution<double> factor(0, noise);
    const double longer_us = turn % 2 == 1 ? (every_second - 1) * compute_us : 0;
    walked.step_us += longer_us + FlushUs(plan);
    walked.step_us *= noise > 0 ? factor(random_) : 1;
    walked.step_us *= std::exchange(stall_, 1);
    DecideInput input = {.turn = static_cast<uint16_t>(turn + 1),
                         .step = {.step = turn,
                                  .turn = turn,
                                  .step_us = walked.step_us,
                                  .compute_us = lies.compute * (compute_us + longer_us),
                                  .busy_us = lies.busy * walked.busy_us},
                         .unplanned = decisions.empty()};
    if (decisions.size() < 3 || turn % 5 == 0) Observe(plan, &input.step);
    input.probes.push_back(Probe(kLadder - 1 - turn % (kLadder - 1)));
    if (std::optional<Decision> decision = Decide(Job(), input, &memory_)) {
      decisions.push_back(*decision);
      orders_.push_back(*decision);
    }
    return walked.step_us;
  }
  void Steps(int n) {
    for (int i = 0; i < n; ++i) Step();
  }
  void StallNext(double factor) { stall_ = factor; }
  // Of what trials may cost: by default far more than that.
  void SpendBudget(double us = 1e9) { memory_.budget.Spend(us); }
  // That a step of none takes so many times as long as one does now.
  void BelieveOfNone(double ratio) {
    Memory::Tried& none = memory_.tried[kNoneRung];
    none.plan = Plan(job_.tensors.size(), kNoneRung);
    none.medians.step_us = ratio * StepUs(running());
  }
  // What was learnt in another world of the same tensors.
  void ResumeFrom(DecisionWorld& other) {
    memory_ = *DecodeKnowledge(Job(), EncodeKnowledge(other.Job(), other.memory_));
  }
  // What a run would begin with that is resumed from here.
  Plan Resumed() { return DecodeKnowledge(Job(), EncodeKnowledge(Job(), memory_))->running; }
  const Plan& running() const { return memory_.running; }
  bool comparing() const { return memory_.comparison.has_value(); }
  double CodecUsPerElemAsKnown(int candidate) const {
    return memory_.model.codec_us_per_elem[candidate];
  }
  bool notices_change() const { return memory_.changed; }
  double spent_us() const { return memory_.budget.spent_us(); }
  // Of the next step, in the pattern of a trial; -1: in none.
  int next_in_trial() const {
    if (!orders_.empty() && orders_.front().from_turn == turn_)
      return orders_.front().a != orders_.front().b ? 0 : -1;
    return plan_a_ != plan_b_ ? turn_ - from_turn_ : -1;
  }
  bool next_is_of_b() const {
    const int next = next_in_trial();
    const uint8_t in_a_row = next == 0 ? orders_.front().in_a_row : in_a_row_;
    return next >= 0 && IsOfB(static_cast<uint16_t>(next), in_a_row);
  }

  std::vector<Decision> decisions;

 private:
  static constexpr int64_t kSlice = 1 << 16;
  static constexpr int64_t kFewElems = 4096;
  static constexpr double kDisturbance = 10;
  static constexpr int64_t kSmallPiece = 256;
  static constexpr double kOfSmall = 40;
  struct Walked {
    double step_us = 0, busy_us = 0;
  };

  // `plan`: of this step.
  double FlushUs(const Plan& plan) {
    double us = 0;
    for (size_t t = 0; t < plan.size(); ++t) {
      const bool kept = !last_.empty() && kCandidates[last_[t]].feedback;
      if (kept && !kCandidates[plan[t]].feedback)
        us += flush_us_per_elem * static_cast<double>(job_.tensors[t].elems);
    }
    last_ = plan;
    return us;
  }

  const Plan& Running(uint16_t turn) const {
    return RunsPlanB({.from_turn = from_turn_, .in_a_row = in_a_row_}, turn) ? plan_b_ : plan_a_;
  }

  double ReadyUs(size_t t) const {
    const auto n = static_cast<double>(job_.tensors.size());
    return compute_us / 3 * (1 + 1.9 * static_cast<double>(t + 1) / n);
  }

  double CodecUsPerElem(int candidate) const {
    return training_factor[candidate] * kCandidates[candidate].codec_us_per_elem;
  }

  double ToldUsPerElem(int candidate) const {
    return candidate == kNoneRung ? none_us_per_elem : CodecUsPerElem(candidate);
  }

  double CallUs(int candidate) const { return candidate == kNoneRung ? 0 : call_us; }

  Walked Walk(const Plan& plan) const {
    double processor_us = 0, wire_us = 0, done_us = 0, busy_us = 0, copies_us = 0;
    for (size_t t = 0; t < plan.size(); ++t) {
      const WorldCandidate& codec = kCandidates[plan[t]];
      const double begin_us = std::max(ReadyUs(t), done_us);
      processor_us = std::max(processor_us, ReadyUs(t)) + CallUs(plan[t]);
      wire_us = std::max(wire_us, ReadyUs(t)) + latency_us +
                message_us * job_.tensors[t].ladder[plan[t]].messages;
      for (int64_t left = job_.tensors[t].elems; left > 0; left -= kSlice) {
        const auto elems = static_cast<double>(std::min(left, kSlice));
        processor_us += elems * CodecUsPerElem(plan[t]) / 2;
        wire_us =
            std::max(wire_us, processor_us) + elems * codec.bytes_per_elem * 1.5 * us_per_byte;
        done_us = std::max(done_us, wire_us) + elems * CodecUsPerElem(plan[t]) / 2;
      }
      busy_us += done_us - begin_us;
      copies_us += copy_us_per_byte * job_.tensors[t].ladder[plan[t]].wire_bytes;
    }
    const double last_us = ReadyUs(plan.size() - 1);
    return {std::max(done_us, last_us) + compute_us - last_us + other_us + copies_us, busy_us};
  }

  void Observe(const Plan& plan, StepInput* step) const {
    for (size_t t = 0; t < plan.size(); ++t) {
      if (misses_telling_steps) {
        step->tensors.push_back({.tensor = t});
        continue;
      }
      const WorldCandidate& codec = kCandidates[plan[t]];
      const auto elems = static_cast<float>(job_.tensors[t].elems);
      step->tensors.push_back(
          {.tensor = t,
           .ready_us = static_cast<float>(lies.ready * ReadyUs(t)),
           .codec_us = static_cast<float>(
               lies.codec *
               (static_cast<double>(elems) * ToldUsPerElem(plan[t]) + CallUs(plan[t]))),
           .energy = elems,
           .error =
               elems * static_cast<float>((t == 0 ? first_error_factor : 1) * ToldError(codec))});
    }
  }

  ProbeResult Probe(int candidate) {
    const bool disturbed = std::bernoulli_distribution(disturbed_probes)(random_);
    const bool small = std::bernoulli_distribution(small_probes)(random_);
    return {.candidate = candidate,
            .elems = small ? kSmallPiece : kSlice,
            .codec_us_per_elem = lies.codec * (disturbed ? kDisturbance : 1) *
                                 (small ? kOfSmall : 1) * kCandidates[candidate].codec_us_per_elem,
            .relative_error = ToldError(kCandidates[candidate])};
  }

  double ToldError(const WorldCandidate& codec) const {
    return lies.error * error_factor * codec.relative_error;
  }

  std::mt19937_64 random_;
  JobFacts job_;
  Memory memory_;
  uint16_t turn_ = 0, from_turn_ = 0;
  uint8_t in_a_row_ = kInARow;
  double stall_ = 1;
  Plan plan_a_, plan_b_, last_;  // last_: of the step before
  std::vector<Decision> orders_;
};

// Elements of six tensors.
inline std::vector<int64_t> Layers() { return {400000, 300000, 200000, 100000, 50000, 20000}; }

inline constexpr int kWarmUp = 60;      // steps
inline constexpr int kPatience = 1000;  // likewise; what has not come by then never does

// False if it never comes. `each` is called before every step.
template <typename Come, typename Each>
bool StepUntil(DecisionWorld* world, Come come, Each each) {
  for (int i = 0; i < kPatience && !come(); ++i) {
    each();
    world->Step();
  }
  return come();
}

inline double ForSteps(DecisionWorld* world, int count) {
  double sum_us = 0;
  for (int i = 0; i < count; ++i) sum_us += world->Step();
  return sum_us;
}

// Of decisions for reasons that end so.
inline int CountOf(const DecisionWorld& world, const std::string& why) {
  return static_cast<int>(std::count_if(world.decisions.begin(), world.decisions.end(),
                                        [&](const Decision& d) { return d.why.ends_with(why); }));
}

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CONTROLLER_DECIDE_WORLD_H_
