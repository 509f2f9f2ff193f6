// What a window of steps leads to: the model learns, and bounds are kept.
#include "runtime/controller/decider.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/controller/bounds.h"
#include "runtime/spec/auto_spec.h"

namespace gradwire {
namespace {

// docs/controller.md has the reason for each.
constexpr int kProbeLifeSteps = 400;
constexpr double kModelOff = 0.2;
constexpr int kWindowsOverBound = 2;
constexpr double kMaxWireChange = 10;  // in one window
constexpr double kSeenOfHalfTheWire = 0.9;
constexpr double kFewerBytes = 0.8;
constexpr double kVerifySteps = 3;
// Codecs that take less of a step tell nothing of what they do to the compute.
constexpr double kLeastCodecShare = 0.01;

}  // namespace

std::optional<Decision> Decider::EndOfWindow() {
  const Memory::Medians sums = SumUp();
  ++m_.windows;
  CompareWithBefore(sums);
  Learn(sums);
  RememberWindow(sums);
  if (std::optional<Decision> safer = KeepBounds(sums.step_us)) return safer;
  // The first steps of a training, before all caches are warm, are no such measurement.
  if (m_.to_verify && !m_.left_out_none && WasFarSlower(*m_.to_verify, sums.step_us)) {
    m_.bans.Ban(*std::exchange(m_.to_verify, std::nullopt), m_.windows);
  }
  if (m_.to_verify) {
    // Whatever is left: one block says too little, and what runs has not been measured against it.
    const double budget_us = std::max(m_.budget.Left(sums.step_us), kVerifySteps * sums.step_us);
    const Trial::Options trial = {.rule = RuleFor(*m_.to_verify),
                                  .may_end_after_one = !m_.left_out_none,
                                  .budget_us = budget_us};
    return Compare(*m_.to_verify, "compared with the plan before", trial, 0, sums.step_us);
  }
  // Further comparisons, in which nobody looks at bounds, wait until it is known whether one is
  // broken.
  const bool in_doubt = std::any_of(m_.tensors.begin(), m_.tensors.end(),
                                    [](const auto& t) { return t.windows_over_bound > 0; });
  if (in_doubt) return std::nullopt;
  if (std::optional<Decision> better = Propose(sums.step_us)) return better;
  if (std::optional<Decision> base = CheckBaseline(sums.step_us)) return base;
  return Explore(sums.step_us);
}

// Than steps are now, as far as is known.
bool Decider::WasFarSlower(const Plan& plan, double step_us) const {
  const Memory::Tried* known = Known(plan);
  return known != nullptr && known->medians.step_us > kFarSlower * step_us;
}

// The training may go on elsewhere than it was saved, and what changed during a trial is noticed
// only by steps of one plan.
void Decider::CompareWithBefore(const Memory::Medians& sums) {
  const double before_us = std::exchange(m_.expected_us, 0);
  if (before_us > 0 && FarApart(sums.step_us, before_us))
    ForgetTimes(sums.step_us / before_us, sums.busy_us);
}

// Whether the time under way tells of the wire. Where codecs bound it, it stays as it is whatever
// becomes of the wire, and nothing can be learnt of that from it.
bool Decider::SeesWire(const ModelState& model, const Plan& plan) const {
  return BusyUs(job_, ScaleWire(model, 0.5), plan) < kSeenOfHalfTheWire * BusyUs(job_, model, plan);
}

// Likewise of the link, which moves bytes alone.
bool Decider::SeesLink(const ModelState& model, const Plan& plan) const {
  return BusyUs(job_, ScaleLink(model, 0.5), plan) < kSeenOfHalfTheWire * BusyUs(job_, model, plan);
}

// Two plans that differ in bytes per message, measured on one wire, tell what both take on it.
bool Decider::FitPair(const MeasuredPlan& one, const MeasuredPlan& other) {
  const double bytes = BytesPerMessage(job_, one.plan);
  const double other_bytes = BytesPerMessage(job_, other.plan);
  if (std::min(bytes, other_bytes) > kFewerBytes * std::max(bytes, other_bytes)) return false;
  const bool heavier = bytes > other_bytes;
  ModelState fitted = m_.model;
  FitWire(job_, heavier ? one : other, heavier ? other : one, &fitted);
  if (!SeesWire(fitted, (heavier ? one : other).plan)) return false;
  m_.model = std::move(fitted);
  return true;
}

// What was measured last before the running plan and differs from it.
const Memory::Tried* Decider::Partner() const {
  const Memory::Tried* partner = nullptr;
  for (const Memory::Tried& tried : m_.tried) {
    if (!tried.is_current() || tried.plan == m_.running) continue;
    if (partner == nullptr || tried.at_step > partner->at_step) partner = &tried;
  }
  return partner;
}

// In the first window of a plan, with what was measured before it since the last change.
bool Decider::FitAgain(const Memory::Medians& medians) {
  const Memory::Tried* own = Known(m_.running);
  if (own == nullptr || !own->is_current()) {
    const Memory::Tried* partner = Partner();
    return partner != nullptr && medians.busy_us > 0 &&
           FitPair({m_.running, medians.busy_us}, {partner->plan, partner->medians.busy_us});
  }
  // A wire that is no longer what it was: the others were measured on the old.
  if (std::abs(medians.busy_us / own->medians.busy_us - 1) > kModelOff) {
    m_.changed = true;
    Outdate(medians.step_us / own->medians.step_us, medians.busy_us);
  }
  return false;
}

// What one plan tells of the wire. What changes at once is mostly how much of a link is left to the
// job: handling a message takes as long as before, also where codecs bounded the plan until then.
void Decider::FollowWire(double busy_us) {
  ModelState& model = m_.model;
  const double predicted_us = BusyUs(job_, model, m_.running);
  if (predicted_us <= 0) return;
  if (m_.changed) {
    ModelState fitted = model;
    FitBytes(job_, {m_.running, busy_us}, &fitted);
    if (SeesWire(fitted, m_.running)) model = std::move(fitted);
  } else if (SeesWire(model, m_.running)) {
    const double factor = std::clamp(busy_us / predicted_us, 1 / kMaxWireChange, kMaxWireChange);
    model = ScaleWire(std::move(model), std::pow(factor, 1 - kForget));
  }
}

void Decider::Learn(const Memory::Medians& sums) {
  ModelState& model = m_.model;
  double codec_us = 0;
  for (size_t t = 0; t < m_.running.size(); ++t)
    codec_us += CodecUs(job_, model, static_cast<int>(t), m_.running[t]);
  const double added_us = sums.compute_us - model.compute_us;
  if (codec_us < kLeastCodecShare * sums.step_us || added_us < 0) {
    model.compute_us = Mix(model.compute_us, sums.compute_us);
  } else {
    model.slowdown = Mix(model.slowdown, std::min(added_us / codec_us, kMaxSlowdown));
  }
  if (!FitAgain(sums) && sums.busy_us > 0) FollowWire(sums.busy_us);
  m_.changed = false;
  const double predicted_us = StepUs(job_, model, m_.running);
  m_.scale = predicted_us > 0 ? sums.step_us / predicted_us : 1;
  m_.model_off = std::abs(m_.scale - 1) > kModelOff;
}

const Memory::Tried* Decider::Known(const Plan& plan) const {
  const auto rung = static_cast<size_t>(TopRung(plan));
  if (rung >= m_.tried.size()) return nullptr;
  const Memory::Tried& tried = m_.tried[rung];
  return tried.medians.step_us > 0 && tried.plan == plan ? &tried : nullptr;
}

// What makes the running plan slower or faster than it was does so to the others.
void Decider::RememberWindow(const Memory::Medians& sums) {
  const Memory::Tried* before = Known(m_.running);
  if (before != nullptr && before->is_current()) {
    const double factor = sums.step_us / before->medians.step_us;
    for (Memory::Tried& tried : m_.tried) {
      if (tried.is_current()) {
        tried.medians.step_us *= factor;
      } else if (!tried.plan.empty()) {
        tried.KeepAtLeast(factor);
      }
    }
  }
  Remember(m_.running, sums);
}

// Measured over predicted of the running plan, or of the one with that top rung that was tried last
// where that is more: what a plan did worse others of its rung may do too, what it did better may
// be its own.
double Decider::Scale(int top_rung) const {
  const auto rung = static_cast<size_t>(top_rung);
  if (rung >= m_.tried.size()) return m_.scale;
  const Memory::Tried& tried = m_.tried[rung];
  const bool known = tried.medians.step_us > 0 && m_.steps - tried.at_step <= kTriedLifeSteps;
  if (!known) return m_.scale;
  const double predicted_us = StepUs(job_, m_.model, tried.plan);
  return predicted_us > 0 ? std::max(m_.scale, tried.medians.step_us / predicted_us) : m_.scale;
}

std::vector<double> Decider::Scales() const {
  std::vector<double> scales(LongestLadder(job_));
  for (size_t rung = 0; rung < scales.size(); ++rung) scales[rung] = Scale(static_cast<int>(rung));
  return scales;
}

bool Decider::IsAllowed(size_t t, size_t rung) const {
  if (rung == kNoneRung) return true;
  const JobRung& r = job_.tensors[t].ladder[rung];
  if (!r.usable() || m_.forbidden[t][rung] > m_.windows) return false;
  if (m_.running[t] == rung) return true;  // its bound is kept by measuring it
  const Memory::Tested& tested = m_.candidates[r.candidate];
  if (tested.relative_error < 0 || m_.steps - tested.at_step > kProbeLifeSteps) return false;
  return DistanceOf(t, r.candidate, tested.relative_error) <= job_.candidates[r.candidate].bound;
}

double Decider::DistanceOf(size_t t, int candidate, double relative_error) const {
  return Distance(job_.candidates[candidate], relative_error, {job_.world_size, m_.alike[t]});
}

bool Decider::IsBeyondBound(const Plan& plan) const {
  for (size_t t = 0; t < plan.size(); ++t) {
    if (plan[t] == kNoneRung) continue;
    const int candidate = job_.tensors[t].ladder[plan[t]].candidate;
    const double lost = m_.candidates[candidate].relative_error;
    const bool is_over =
        lost >= 0 && DistanceOf(t, candidate, lost) > job_.candidates[candidate].bound;
    if (is_over || m_.forbidden[t][plan[t]] > m_.windows) return true;
  }
  return false;
}

Allowed Decider::AllAllowed() const {
  Allowed allowed(job_.tensors.size());
  for (size_t t = 0; t < allowed.size(); ++t) {
    for (size_t r = 0; r < job_.tensors[t].ladder.size(); ++r)
      allowed[t].push_back(IsAllowed(t, r));
  }
  return allowed;
}

const Candidate& Decider::Running(size_t t) const {
  return job_.candidates[job_.tensors[t].ladder[m_.running[t]].candidate];
}

double Decider::DistanceOf(size_t t) const {
  const Memory::Measured& measured = m_.tensors[t];
  if (m_.running[t] == kNoneRung || measured.relative_error <= 0) return 0;
  return Distance(Running(t), measured.relative_error, {job_.world_size, m_.alike[t]});
}

Outcome Decider::OutcomeOf(double step_us) const {
  Outcome outcome = {.measured_us = step_us};
  for (size_t t = 0; t < m_.running.size(); ++t) {
    const double distance = DistanceOf(t), bound = Running(t).bound;
    if (distance <= 0) continue;
    const bool nearer = !outcome.distance || distance * outcome.bound > *outcome.distance * bound;
    if (nearer) outcome.distance = distance, outcome.bound = bound;
  }
  return outcome;
}

// A tensor whose error is beyond its bound goes down a rung, at once and without a trial.
std::optional<Decision> Decider::KeepBounds(double step_us) {
  Plan safer = m_.running;
  for (size_t t = 0; t < safer.size(); ++t) {
    Memory::Measured& measured = m_.tensors[t];
    const bool over = DistanceOf(t) > Running(t).bound;
    measured.windows_over_bound = over ? measured.windows_over_bound + 1 : 0;
    if (measured.windows_over_bound < kWindowsOverBound) continue;
    measured.windows_over_bound = 0;
    m_.forbidden[t][safer[t]] = m_.windows + kForbidWindows;
    do --safer[t];
    while (!IsAllowed(t, safer[t]));
  }
  if (safer == m_.running) return std::nullopt;
  return Switch(std::move(safer), "an error was above its bound", 0, step_us);
}

}  // namespace gradwire
