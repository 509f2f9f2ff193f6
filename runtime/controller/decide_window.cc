// What a window of steps leads to: the model learns, bounds are kept, better plans are proposed and
// the plain ones measured again.
#include "runtime/controller/decider.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/controller/bounds.h"
#include "runtime/controller/plan.h"
#include "runtime/spec/auto_spec.h"

namespace gradwire {
namespace {

// docs/controller.md has the reason for each.
constexpr int kProbeLifeSteps = 400;
constexpr double kWorthSwitching =
    0.80;  // predicted over running: so much that it is switched first and verified then
constexpr double kModelOff = 0.2;
constexpr int kBaselineEverySteps = 200;
constexpr int kBaselineAgainSteps = 40;  // where the model is off
constexpr int kSlowerBaselineEverySteps = 1000;
constexpr int kBaselineBlocks = 2;
constexpr int kBanWindows = 8;  // doubled each time
constexpr int kMaxBanDoublings = 6;
constexpr int kForbidWindows = 64;
constexpr int kWindowsOverBound = 2;
constexpr double kBudgetShare = 0.0075;
constexpr double kBudgetSteps = 3;
constexpr double kMaxWireChange = 10;  // in one window
constexpr double kMaxSlowdown = 2;
constexpr double kSeenOfHalfTheWire = 0.9;
constexpr double kFewerBytes = 0.8;
// Codecs that take less of a step tell nothing of what they do to the compute.
constexpr double kLeastCodecShare = 0.01;
constexpr double kTellingBytes = 0.1;
constexpr double kKeptOfBudget = 0.5;

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
    BanPlan(*std::exchange(m_.to_verify, std::nullopt));
  }
  if (m_.to_verify) {
    return Compare(*m_.to_verify, "compared with the plan before",
                   {.budget_us = Budget(sums.step_us)}, 0, sums.step_us);
  }
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
  return BusyUs(job_, OnWire(model, 0.5), plan) < kSeenOfHalfTheWire * BusyUs(job_, model, plan);
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
    model = OnWire(std::move(model), std::pow(factor, 1 - kForget));
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
  const Candidate& candidate = job_.candidates[r.candidate];
  return Distance(candidate, tested.relative_error, {job_.world_size, m_.alike[t]}) <=
         candidate.bound;
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

const Memory::Ban* Decider::BanOf(const Plan& plan) const {
  const auto it = std::find_if(m_.bans.begin(), m_.bans.end(),
                               [&](const Memory::Ban& ban) { return ban.plan == plan; });
  return it == m_.bans.end() ? nullptr : &*it;
}

bool Decider::IsBanned(const Plan& plan) const {
  const Memory::Ban* ban = BanOf(plan);
  return ban != nullptr && ban->until_window > m_.windows;
}

// As far back as bans are remembered.
int Decider::TimesLost(const Plan& plan) const {
  const Memory::Ban* ban = BanOf(plan);
  return ban != nullptr ? ban->times : 0;
}

void Decider::BanPlan(const Plan& plan) {
  // Long expired: what is proposed again begins anew.
  std::erase_if(m_.bans, [&](const Memory::Ban& ban) {
    return ban.until_window + kForbidWindows < m_.windows;
  });
  auto it = std::find_if(m_.bans.begin(), m_.bans.end(),
                         [&](const Memory::Ban& ban) { return ban.plan == plan; });
  if (it == m_.bans.end()) it = m_.bans.insert(m_.bans.end(), {.plan = plan});
  it->until_window = m_.windows + (kBanWindows << std::min(it->times++, kMaxBanDoublings));
}

double Decider::Budget(double step_us) const {
  return std::max(0.0, kBudgetShare * m_.time_us + kBudgetSteps * step_us - m_.spent_us);
}

// Steps take `factor` of what they took. What trials have spent beyond their share of the time was
// allowed in steps, and is paid back in as many of those that are shorter now.
void Decider::RescaleBudget(double factor) {
  const double over_us = m_.spent_us - kBudgetShare * m_.time_us;
  if (factor < 1 && over_us > 0) m_.spent_us -= (1 - factor) * over_us;
}

// Whether no tensor is on a higher rung of its ladder, and one on a lower.
bool Decider::IsLighter(const Plan& plan) const {
  for (size_t t = 0; t < plan.size(); ++t) {
    if (plan[t] > m_.running[t]) return false;
  }
  return plan != m_.running;
}

// A model that was wrong about so much may be so again, on another network too.
bool Decider::IsMisled() const {
  return m_.misled_at_step && m_.steps - *m_.misled_at_step <= kTriedLifeSteps;
}

std::optional<Decision> Decider::Propose(double step_us) {
  Plan best = BestPlan(job_, m_.model, AllAllowed(), Scales());
  if (best == m_.running || IsBanned(best)) return std::nullopt;
  const double predicted_us = Predict(best);
  const bool lighter = IsLighter(best);
  if (predicted_us > (lighter ? 1.0 : kWorthTrying) * step_us) return std::nullopt;
  const bool sends_less = WireBytes(job_, best) < WireBytes(job_, m_.running);
  if (sends_less && !IsMisled() && predicted_us < kWorthSwitching * step_us) {
    m_.to_verify = m_.running;
    return Switch(std::move(best), "much faster by prediction", predicted_us, step_us);
  }
  if (Budget(step_us) <= 0) return std::nullopt;
  const Trial::Options trial = {.rule = lighter ? kMayBeEqual : kMustBeFaster,
                                .lost_before = TimesLost(best),
                                .budget_us = Budget(step_us)};
  return Compare(std::move(best), "compared: it may be better", trial, predicted_us, step_us);
}

// The running plan with another rung for a tensor: that with which the step is shortest if codecs
// overlap the wire, where that promises enough.
std::optional<Plan> Decider::NeighbourIn(size_t t, const std::vector<bool>& allowed) const {
  std::optional<Plan> best;
  double best_us = kWorthTrying * OverlappedStepUs(job_, m_.model, m_.running);
  for (size_t r = 0; r < allowed.size(); ++r) {
    Plan plan = m_.running;
    plan[t] = static_cast<uint8_t>(r);
    if (!allowed[r] || r == m_.running[t] || IsBanned(plan)) continue;
    const double us = OverlappedStepUs(job_, m_.model, plan);
    if (us > best_us) continue;
    best_us = us;
    best = std::move(plan);
  }
  return best;
}

// Where the model has nothing to propose: tensors that lost least, then those that promise most.
std::optional<Decision> Decider::Explore(double step_us) {
  const double budget_us = Budget(step_us) - kKeptOfBudget * kBudgetSteps * step_us;
  Memory::Exploration& exploration = m_.exploration;
  const bool has_settled = m_.recent_us.size() >= kExploreSteps;
  if (!has_settled || m_.steps < exploration.not_before_step || budget_us <= 0) return std::nullopt;
  exploration.lost.resize(m_.running.size());
  const double telling_bytes = kTellingBytes * WireBytes(job_, AllOn(job_, kNoneRung));
  const Allowed allowed = AllAllowed();
  std::optional<Plan> best;
  std::pair<int, double> best_rank;
  for (size_t t = 0; t < m_.running.size(); ++t) {
    if (job_.tensors[t].ladder[kNoneRung].wire_bytes < telling_bytes) continue;
    std::optional<Plan> plan = NeighbourIn(t, allowed[t]);
    if (!plan) continue;
    const std::pair rank(exploration.lost[t], OverlappedStepUs(job_, m_.model, *plan));
    if (best && best_rank <= rank) continue;
    exploration.tensor = t;
    best_rank = rank;
    best = std::move(plan);
  }
  if (!best) return std::nullopt;
  const double gain = best_rank.second / OverlappedStepUs(job_, m_.model, m_.running);
  const Trial::Options trial = {.lost_before = TimesLost(*best), .budget_us = budget_us};
  return Compare(std::move(*best), "compared: one tensor may be better off", trial, gain * step_us,
                 step_us);
}

// The plan to measure again.
const Plan& Decider::Baseline(const Plan& none, const Plan& bf16, bool blind) const {
  if (blind) return m_.blind_took_bf16 ? none : bf16;  // by turns: the model cannot choose
  // Where one of them runs the other is measured: the model cannot tell what it has not seen.
  if (m_.running == none || m_.running == bf16) return m_.running == none ? bf16 : none;
  return Predict(bf16) < Predict(none) ? bf16 : none;
}

// Whatever the model says, every now and then the plain sum or bf16 is measured again.
std::optional<Decision> Decider::CheckBaseline(double step_us) {
  const int64_t since = m_.steps - m_.last_baseline_step;
  const Plan none = AllOn(job_, kNoneRung), bf16 = AllOn(job_, kBf16Rung);
  const bool blind = m_.running != none && m_.running != bf16 && !SeesWire(m_.model, m_.running);
  if (since < (m_.model_off && !blind ? kBaselineAgainSteps : kBaselineEverySteps))
    return std::nullopt;
  const Plan base = Baseline(none, bf16, blind);
  // What was slower under the same network is seldom measured again: its steps cost what they
  // take. A job that does not see its wire does not know whether it is the same.
  const Memory::Tried* known = Known(base);
  const double measured_us = known != nullptr ? known->medians.step_us : 0;
  const int64_t apart = measured_us > step_us && !blind ? kSlowerBaselineEverySteps : 0;
  if (since < apart || base == m_.running || (!blind && IsBanned(base))) return std::nullopt;
  if (Budget(step_us) <= 0) return std::nullopt;
  m_.last_baseline_step = m_.steps;
  if (blind) m_.blind_took_bf16 = base == bf16;
  const double predicted_us = Predict(base);
  return Compare(base, "compared with the baseline",
                 {.min_blocks = kBaselineBlocks, .budget_us = Budget(step_us)}, predicted_us,
                 step_us);
}

}  // namespace gradwire
