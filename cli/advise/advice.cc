#include "cli/advise/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/clock.h"
#include "cli/train/gradient_times.h"
#include "runtime/controller/bounds.h"
#include "runtime/controller/controlled.h"
#include "runtime/controller/decide.h"
#include "runtime/state/tensor_state.h"

namespace gradwire {
namespace {

// By the model, beside those of no codec and of bf16. It does not see how ranks share their
// processors, which decides between plans that are near each other.
constexpr size_t kMostTried = 3;
// In times of the step of no codec, both predicted: what the model puts above that is not faster.
constexpr double kHopeless = 1.2;

ModelState StateOf(const JobFacts& job, const ModelShapes& model, double compute_ms,
                   const Measurements& measured) {
  ModelState state = {.compute_us = compute_ms * kUsPerMs};
  const auto compute_ns = static_cast<int64_t>(std::llround(compute_ms * kNsPerMs));
  for (const int64_t ns : GradientTimes(model, compute_ns))
    state.ready_us.push_back(static_cast<double>(ns) / kNsPerUs);
  for (const std::optional<ProbeReport>& codec : measured.codecs)
    state.codec_us_per_elem.push_back(codec ? codec->codec_us_per_elem : -1);
  FitWire(job, {AllOn(job, kNoneRung), measured.none_ms * kUsPerMs},
          {AllOn(job, kBf16Rung), measured.bf16_ms * kUsPerMs}, &state);
  return state;
}

// Turns a job and what was measured into rows.
class Adviser {
 public:
  Adviser(const JobFacts& job, const ModelState& state, const Measurements& measured)
      : job_(job), state_(state), measured_(measured) {}

  std::vector<Plan> PlansToTry() const {
    const Allowed allowed = AllAllowed();
    const Plan none = AllOn(job_, kNoneRung), bf16 = UpTo(job_, allowed, kBf16Rung);
    const double none_us = StepUs(job_, state_, none);
    std::vector<std::pair<double, Plan>> plans;
    const auto add = [&](const Plan& plan) {
      const double step_us = StepUs(job_, state_, plan);
      if (plan != none && step_us < kHopeless * none_us) plans.emplace_back(step_us, plan);
    };
    add(BestPlan(job_, state_, allowed));
    for (int rung = kBf16Rung; rung < std::ssize(job_.tensors[0].ladder); ++rung)
      add(UpTo(job_, allowed, rung));
    std::sort(plans.begin(), plans.end());
    plans.erase(std::unique(plans.begin(), plans.end()), plans.end());

    // bf16 is the lightest on the processor: it may win where the others lose for one reason.
    std::vector<Plan> to_try;
    for (const auto& [step_us, plan] : plans)
      if (to_try.size() < kMostTried || plan == bf16) to_try.push_back(plan);
    return to_try;
  }

  PlanAdvice Row(const Plan& plan, std::string name, const std::vector<TriedPlan>& tried) const {
    PlanAdvice row = {.name = std::move(name),
                      .predicted_ms = StepUs(job_, state_, plan) / kUsPerMs,
                      .wire_bytes = WireBytes(job_, plan)};
    for (const TriedPlan& trial : tried)
      if (trial.plan == plan) row.tried_ms = trial.step_ms;
    for (int t = 0; t < std::ssize(plan); ++t)
      row.codec_ms += CodecUs(job_, state_, t, plan[t]) / kUsPerMs;
    return row;
  }

  // In the order of the ladder; codecs that no tensor can use have none.
  std::vector<PlanAdvice> UniformRows(const std::vector<TriedPlan>& tried) const {
    std::vector<PlanAdvice> rows;
    for (int rung = 0; rung < std::ssize(job_.tensors[0].ladder); ++rung) {
      const int c = CandidateOn(rung);
      if (c < 0) continue;
      PlanAdvice row = Row(AllOn(job_, rung), job_.candidates[c].spec, tried);
      if (measured_.codecs[c]) {
        row.distance = DistanceOf(c);
        row.bound = job_.candidates[c].bound;
      }
      rows.push_back(std::move(row));
    }
    return rows;
  }

  std::vector<TensorAdvice> TensorRows(const Plan& plan) const {
    const double advised_us = StepUs(job_, state_, plan);
    const std::vector<std::string> specs = SpecsOf(job_, plan);
    std::vector<TensorAdvice> rows;
    for (size_t t = 0; t < plan.size(); ++t) {
      const JobTensor& tensor = job_.tensors[t];
      const JobRung& none = tensor.ladder[kNoneRung];
      const JobRung& chosen = tensor.ladder[plan[t]];
      Plan without = plan;
      without[t] = kNoneRung;
      const double without_us = StepUs(job_, state_, without);
      rows.push_back({.name = tensor.name,
                      .elems = tensor.elems,
                      .choice = specs[t],
                      .without_ms = without_us / kUsPerMs,
                      .gain_ms = (without_us - advised_us) / kUsPerMs,
                      .saved = 1 - chosen.wire_bytes / none.wire_bytes});
    }
    return rows;
  }

 private:
  double DistanceOf(int candidate) const {
    return Distance(job_.candidates[candidate], measured_.codecs[candidate]->relative_error,
                    {job_.world_size});
  }

  bool IsAllowed(const JobRung& rung) const {
    return rung.usable() && measured_.codecs[rung.candidate] &&
           DistanceOf(rung.candidate) <= job_.candidates[rung.candidate].bound;
  }

  Allowed AllAllowed() const {
    Allowed allowed;
    for (const JobTensor& tensor : job_.tensors) {
      std::vector<bool>& of_tensor = allowed.emplace_back();
      for (const JobRung& rung : tensor.ladder) of_tensor.push_back(IsAllowed(rung));
      of_tensor[kNoneRung] = true;
    }
    return allowed;
  }

  int CandidateOn(int rung) const {
    for (const JobTensor& tensor : job_.tensors) {
      if (tensor.ladder[rung].usable()) return tensor.ladder[rung].candidate;
    }
    return -1;
  }

  const JobFacts& job_;
  const ModelState& state_;
  const Measurements& measured_;
};

// Three digits.
std::string MsText(double ms) {
  return fmt::format("{} ms", ms >= 100 ? fmt::format("{:.0f}", ms) : fmt::format("{:.3g}", ms));
}

}  // namespace

JobFacts JobOf(const ModelShapes& model, std::shared_ptr<const AutoSpec> automatic,
               const AlgorithmRule& algorithms, int64_t slice_elems) {
  JobFacts job = {.world_size = algorithms.world_size, .slice_elems = slice_elems};
  for (const TensorShape& shape : model.tensors) {
    TensorState tensor;
    tensor.name = shape.name;
    tensor.id = job.tensors.size();
    tensor.shape = shape.lengths;
    tensor.elems = shape.elems();
    tensor.TakeLadder(automatic, algorithms.world_size);
    job.tensors.push_back(JobTensorOf(tensor, algorithms, &job.candidates));
  }
  return job;
}

bool Hides(double step_ms, double compute_ms) { return kWorthTrying * step_ms < compute_ms; }

std::vector<Plan> PlansToTry(const JobFacts& job, const ModelShapes& model, double compute_ms,
                             const Measurements& measured) {
  const ModelState state = StateOf(job, model, compute_ms, measured);
  return Adviser(job, state, measured).PlansToTry();
}

std::vector<std::string> SpecsOf(const JobFacts& job, const Plan& plan) {
  std::vector<std::string> specs;
  for (size_t t = 0; t < plan.size(); ++t)
    specs.push_back(job.candidates[job.tensors[t].ladder[plan[t]].candidate].spec);
  return specs;
}

Advice MakeAdvice(const JobFacts& job, const ModelShapes& model, double compute_ms,
                  const Measurements& measured, const std::vector<TriedPlan>& tried) {
  const ModelState state = StateOf(job, model, compute_ms, measured);
  const Adviser adviser(job, state, measured);
  const TriedPlan& none = tried[0];
  const TriedPlan& fastest = *std::min_element(
      tried.begin(), tried.end(),
      [](const TriedPlan& a, const TriedPlan& b) { return a.step_ms < b.step_ms; });
  const bool is_worth = fastest.step_ms < kWorthTrying * none.step_ms;
  const Plan& best = (is_worth ? fastest : none).plan;
  return {.compute_ms = compute_ms,
          .measured = measured,
          .us_per_message = state.us_per_message,
          .us_per_byte = state.us_per_byte,
          .tried_plans = tried.size(),
          .compress = is_worth,
          .plans = adviser.UniformRows(tried),
          .advised = adviser.Row(best, "advised", tried),
          .tensors = adviser.TensorRows(best)};
}

std::string Summary(const Advice& advice) {
  const PlanAdvice& none = advice.plans[kNoneRung];
  if (advice.compress) {
    return fmt::format(
        "{}compress: a step takes about {} instead of {} and sends {:.0f} % fewer bytes",
        advice.compute_ms > 0 ? "" : "if nothing else is computed, ",
        MsText(advice.advised.step_ms()), MsText(none.step_ms()),
        100 * (1 - advice.advised.wire_bytes / none.wire_bytes));
  }
  if (Hides(none.step_ms(), advice.compute_ms)) {
    return fmt::format(
        "do not compress: communication hides behind compute and adds about {} to {}",
        MsText(none.step_ms() - advice.compute_ms), MsText(advice.compute_ms));
  }
  return fmt::format(
      "do not compress: no codec within its bound makes a step of about {} at least {:.0f} % "
      "shorter",
      MsText(none.step_ms()), 100 * (1 - kWorthTrying));
}

}  // namespace gradwire
