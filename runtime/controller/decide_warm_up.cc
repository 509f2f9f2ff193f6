// How a training begins: bf16 is measured, then none, unless it is clear without.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/controller/decider.h"
#include "runtime/controller/plan.h"
#include "runtime/spec/auto_spec.h"

namespace gradwire {
namespace {

// docs/controller.md has the reason for each.
constexpr size_t kWarmUpSteps = 10;  // of each of the two plans, at most
constexpr size_t kLeastWarmUpSteps = 3;
constexpr double kSteadyError = 0.02;
constexpr size_t kClearSteps = 2;
constexpr double kClearShare = 0.3;  // of the shortest step, saved by prediction
constexpr double kRulesOutNone = 1.2;

}  // namespace

// Whether the standard error of the window's mean step is small, or there are enough of them.
bool Decider::IsSteady() const {
  if (m_.window.size() >= kWarmUpSteps) return true;
  if (m_.window.size() < kLeastWarmUpSteps) return false;
  const auto steps = static_cast<double>(m_.window.size());
  double sum_us = 0, squares = 0;
  for (const StepInput& step : m_.window) sum_us += step.step_us;
  const double mean_us = sum_us / steps;
  for (const StepInput& step : m_.window) squares += std::pow(step.step_us / mean_us - 1, 2);
  return squares / ((steps - 1) * steps) <= kSteadyError * kSteadyError;
}

// The plan that a phase of it is named after.
std::optional<Decision> Decider::Measure(Memory::Phase phase, double was_us) {
  m_.phase = phase;
  const bool is_bf16 = phase == Memory::Phase::kBf16;
  return Switch(AllOn(job_, is_bf16 ? kBf16Rung : kNoneRung),
                fmt::format("warm-up: {} is measured", is_bf16 ? "bf16" : "none"), 0, was_us);
}

// Where bf16 waits for its bytes so much that a good part of the step may be saved, none, which
// sends twice as many, is not measured: on slow links its steps would be most of a short training.
// Of the steps measured the shortest counts, for what disturbs a step makes it longer. All of its
// time under way is taken for that of bytes.
std::optional<Decision> Decider::LeaveOutNone() {
  if (m_.phase != Memory::Phase::kBf16 || m_.window.size() < kClearSteps) return std::nullopt;
  const bool knows_tensors = std::any_of(m_.model.ready_us.begin(), m_.model.ready_us.end(),
                                         [](double us) { return us > 0; });
  if (!knows_tensors || IsMisled()) return std::nullopt;
  const StepInput least = *std::min_element(
      m_.window.begin(), m_.window.end(),
      [](const StepInput& a, const StepInput& b) { return a.step_us < b.step_us; });
  ModelState model = m_.model;
  model.compute_us = least.compute_us;
  model.us_per_message = 0;
  FitBytes(job_, {m_.running, least.busy_us}, &model);
  Plan best = BestPlan(job_, model, AllAllowed());
  const double predicted_us = StepUs(job_, model, best);
  const double saved_us = StepUs(job_, model, m_.running) - predicted_us;
  if (saved_us < kClearShare * least.step_us) return std::nullopt;
  m_.model = std::move(model);
  const Memory::Medians bf16 = SumUp();
  Remember(m_.running, bf16);
  Settle();
  m_.left_out_none = true;
  m_.to_verify = m_.running;
  return Switch(std::move(best), "warm-up: much faster than bf16 by prediction", predicted_us,
                bf16.step_us);
}

// Whether bf16, which takes so many times as long as the running plan, which sends less, shows by
// that that none takes longer still: more bytes than that plan saves come on top. What bf16's own
// codec takes none does not take.
bool Decider::RulesOutNone(double bf16_ratio) const {
  const Plan bf16 = AllOn(job_, kBf16Rung);
  double codec_us = 0;
  for (size_t t = 0; t < bf16.size(); ++t) {
    codec_us += CodecUs(job_, m_.model, static_cast<int>(t), bf16[t]);
  }
  const double running_us = m_.tried[TopRung(m_.running)].medians.step_us;
  return bf16_ratio - codec_us / running_us >= kRulesOutNone;
}

// It was not as clear as that: bytes are not all that takes time, or the first steps were
// disturbed.
std::optional<Decision> Decider::GoOnWarmingUp(double was_us) {
  m_.misled_at_step = m_.steps;
  const Memory::Tried* bf16 = Known(AllOn(job_, kBf16Rung));
  const bool has_bf16 = bf16 != nullptr && bf16->is_current();
  return Measure(has_bf16 ? Memory::Phase::kNone : Memory::Phase::kBf16, was_us);
}

// What none was left out for, if it has shown to be worth it: it takes so much less than that.
const Memory::Tried* Decider::FastestTriedBelow(double step_us) const {
  const Memory::Tried* fastest = nullptr;
  for (const Memory::Tried& tried : m_.tried) {
    if (!tried.is_current() || tried.medians.step_us > kWorthTrying * step_us) continue;
    if (IsBeyondBound(tried.plan)) continue;
    step_us = tried.medians.step_us / kWorthTrying;
    fastest = &tried;
  }
  return fastest;
}

std::optional<Decision> Decider::EndOfBf16() {
  const Memory::Medians bf16 = SumUp();
  Remember(m_.running, bf16);
  return Measure(Memory::Phase::kNone, bf16.step_us);
}

std::optional<Decision> Decider::EndOfNone() {
  const Plan bf16_plan = AllOn(job_, kBf16Rung);
  const Memory::Medians none = SumUp();
  const Memory::Medians bf16 = m_.tried[static_cast<size_t>(TopRung(bf16_plan))].medians;
  Remember(m_.running, none);
  Settle();
  m_.model.compute_us = none.compute_us;
  FitWire(job_, {m_.running, none.busy_us}, {bf16_plan, bf16.busy_us}, &m_.model);
  if (const Memory::Tried* faster = FastestTriedBelow(std::min(none.step_us, bf16.step_us))) {
    m_.to_verify = m_.running;
    return Switch(faster->plan, "warm-up: faster than bf16 and none", faster->medians.step_us,
                  none.step_us);
  }
  if (bf16.step_us >= kWorthTrying * none.step_us) {
    return Switch(m_.running, "warm-up: bf16 is no faster than none", none.step_us, bf16.step_us);
  }
  if (IsBeyondBound(bf16_plan)) {
    return Switch(m_.running, "warm-up: bf16 loses more than it may", none.step_us, bf16.step_us);
  }
  m_.running = bf16_plan;  // from here on, or what is better still
  Learn(bf16);
  if (std::optional<Decision> better = Propose(bf16.step_us)) return better;
  return Switch(bf16_plan, "warm-up: bf16 is faster than none", bf16.step_us, none.step_us);
}

void Decider::Settle() {
  m_.phase = Memory::Phase::kSettled;
  m_.last_baseline_step = m_.steps;
}

}  // namespace gradwire
