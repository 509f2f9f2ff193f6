// Better plans are proposed and explored, plain ones measured again, within a budget.
#include "runtime/controller/decider.h"

#include <utility>

#include "runtime/spec/auto_spec.h"

namespace gradwire {
namespace {

// docs/controller.md has the reason for each.
constexpr double kWorthSwitching =
    0.80;  // predicted over running: so much that it is switched first and verified then
constexpr int kBaselineEverySteps = 200;
constexpr int kBaselineAgainSteps = 40;  // where the model is off
constexpr int kSlowerBaselineEverySteps = 1000;
constexpr double kClearlySlower = 1.15;
constexpr int kBaselineBlocks = 2;
constexpr int kBlocksInDoubt = 6;
constexpr double kTellingBytes = 0.1;
constexpr double kAboutAsLong = 1.05;  // predicted over running

}  // namespace

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
  if (best == m_.running || m_.bans.IsBanned(best, m_.windows)) return std::nullopt;
  const double predicted_us = Predict(best);
  const bool lighter = IsLighter(best);
  if (predicted_us > (lighter ? 1.0 : kWorthTrying) * step_us) return std::nullopt;
  const bool sends_less = WireBytes(job_, best) < WireBytes(job_, m_.running);
  if (sends_less && !IsMisled() && predicted_us < kWorthSwitching * step_us) {
    m_.to_verify = m_.running;
    return Switch(std::move(best), "much faster by prediction", predicted_us, step_us);
  }
  const double budget_us = m_.budget.Left(step_us);
  if (budget_us <= 0) return std::nullopt;
  const Trial::Options trial = {.rule = lighter ? kMayBeEqual : kMustBeFaster,
                                .lost_before = m_.bans.TimesLost(best),
                                .budget_us = budget_us};
  return Compare(std::move(best), "compared: it may be better", trial, predicted_us, step_us);
}

// Of so many bytes that travel otherwise a step may tell.
double Decider::TellingBytes() const {
  return kTellingBytes * WireBytes(job_, AllOn(job_, kNoneRung));
}

// What the tensors with another rung than now would send if they were exact.
double Decider::BytesOfDifference(const Plan& plan) const {
  double bytes = 0;
  for (size_t t = 0; t < plan.size(); ++t) {
    if (plan[t] != m_.running[t]) bytes += job_.tensors[t].ladder[kNoneRung].wire_bytes;
  }
  return bytes;
}

// The running plan with another rung for a tensor: that with which the step is shortest if codecs
// overlap the wire, where that promises enough. `running_us`: with the one that it has.
std::optional<Decider::Promise> Decider::NeighbourIn(size_t t, const std::vector<bool>& allowed,
                                                     double running_us) const {
  std::optional<Promise> best;
  for (size_t r = 0; r < allowed.size(); ++r) {
    if (!allowed[r] || r == m_.running[t]) continue;
    Plan plan = m_.running;
    plan[t] = static_cast<uint8_t>(r);
    if (m_.bans.IsBanned(plan, m_.windows)) continue;
    const double ratio = OverlappedStepUs(job_, m_.model, plan) / running_us;
    if (ratio > (best ? best->ratio : kWorthTrying)) continue;
    best = {std::move(plan), ratio};
  }
  return best;
}

// All tensors on a rung. A search that took some of them down knows nothing of what it costs to
// have several codecs, or more bytes where they are hidden. Where none runs nothing is hidden; none
// and bf16 are baselines, with rules of their own.
std::optional<Decider::Promise> Decider::AllOnRung(int rung, const Allowed& allowed) const {
  if (TopRung(m_.running) == kNoneRung || rung <= kBf16Rung) return std::nullopt;
  Plan plan = UpTo(job_, allowed, rung);
  if (TopRung(plan) < rung || m_.bans.IsBanned(plan, m_.windows)) return std::nullopt;
  const double ratio = Predict(plan) / Predict(m_.running);
  if (ratio > kAboutAsLong || BytesOfDifference(plan) < TellingBytes()) return std::nullopt;
  return Promise{std::move(plan), ratio};
}

// Where the model has nothing to propose: what lost least often, of that what promises most.
std::optional<Decision> Decider::Explore(double step_us) {
  const double budget_us = m_.budget.LeftToExplore(step_us);
  Memory::Exploration& exploration = m_.exploration;
  const bool has_settled = m_.recent_us.size() >= kExploreSteps;
  if (!has_settled || m_.steps < exploration.not_before_step || budget_us <= 0) return std::nullopt;
  const size_t tensors = m_.running.size(), subjects = tensors + LongestLadder(job_);
  exploration.lost.resize(subjects);
  const Allowed allowed = AllAllowed();
  const double running_us = OverlappedStepUs(job_, m_.model, m_.running);
  const double telling_bytes = TellingBytes();
  std::optional<Promise> best;
  std::pair<int, double> best_rank;
  const auto offer = [&](size_t subject, std::optional<Promise> promise) {
    if (!promise) return;
    const std::pair rank(exploration.lost[subject], promise->ratio);
    if (best && best_rank <= rank) return;
    exploration.subject = subject;
    best_rank = rank;
    best = std::move(promise);
  };
  for (size_t t = 0; t < tensors; ++t) {
    if (job_.tensors[t].ladder[kNoneRung].wire_bytes < telling_bytes) continue;
    offer(t, NeighbourIn(t, allowed[t], running_us));
  }
  for (size_t s = tensors; s < subjects; ++s)
    offer(s, AllOnRung(static_cast<int>(s - tensors), allowed));
  if (!best) return std::nullopt;
  const char* why = *exploration.subject < tensors ? "compared: one tensor may be better off"
                                                   : "compared: one codec for all may be better";
  const Trial::Options trial = {.lost_before = m_.bans.TimesLost(best->plan),
                                .budget_us = budget_us};
  return Compare(std::move(best->plan), why, trial, best->ratio * step_us, step_us);
}

// For a plan that has run. What is no faster than none is no better either: it only loses more.
TrialRule Decider::RuleFor(const Plan& before) {
  return TopRung(before) == kNoneRung ? kMayBeEqual : kMustBeFaster;
}

// What it took over what a step takes now; 0: not known.
double Decider::KnownRatio(const Plan& plan, double step_us) const {
  const Memory::Tried* known = Known(plan);
  return known != nullptr ? known->medians.step_us / step_us : 0;
}

// Larger where none takes clearly longer, as far as is known.
TrialBudget::Share Decider::BudgetShare() const {
  const bool is_known = !m_.tried.empty() && m_.usual_us > 0;
  const bool is_slower =
      is_known && m_.tried[kNoneRung].medians.step_us > kClearlySlower * m_.usual_us;
  return is_slower || m_.none_ruled_out ? TrialBudget::Share::kLarger : TrialBudget::Share::kUsual;
}

// The plan to measure again.
const Plan& Decider::Baseline(const Plan& none, const Plan& bf16, bool blind,
                              double step_us) const {
  if (IsBeyondBound(bf16)) return none;
  if (blind) return m_.blind_took_bf16 ? none : bf16;  // by turns: the model cannot choose
  // Where one of them runs the other is measured: the model cannot tell what it has not seen.
  if (m_.running == none || m_.running == bf16) return m_.running == none ? bf16 : none;
  // Nothing may be slower than none: where it may be the faster one it is not left to the model.
  const double ratio = KnownRatio(none, step_us);
  if (ratio > 0 && ratio < kClearlySlower && !m_.bans.IsBanned(none, m_.windows)) return none;
  return Predict(bf16) < Predict(none) ? bf16 : none;
}

// Whatever the model says, every now and then the plain sum or bf16 is measured again.
std::optional<Decision> Decider::CheckBaseline(double step_us) {
  const int64_t since = m_.steps - m_.last_baseline_step;
  const Plan none = AllOn(job_, kNoneRung), bf16 = AllOn(job_, kBf16Rung);
  const bool blind = m_.running != none && m_.running != bf16 && !SeesWire(m_.model, m_.running);
  if (since < (m_.model_off && !blind ? kBaselineAgainSteps : kBaselineEverySteps))
    return std::nullopt;
  const Plan base = Baseline(none, bf16, blind, step_us);
  // What was slower under the same network is seldom measured again: its steps cost what they
  // take. A job that does not see its wire does not know whether it is the same. None that was a
  // little slower may have been so by chance, and nothing may be slower than that; bf16 may wait.
  const double ratio = blind ? 0 : KnownRatio(base, step_us);
  const bool in_doubt = base == none && ratio > 1 && ratio < kClearlySlower;
  const int64_t apart = ratio > 1 && !in_doubt ? kSlowerBaselineEverySteps : 0;
  const bool is_banned = !blind && m_.bans.IsBanned(base, m_.windows);
  if (since < apart || base == m_.running || is_banned) return std::nullopt;
  const double budget_us = m_.budget.Left(step_us);
  if (budget_us <= 0) return std::nullopt;
  m_.last_baseline_step = m_.steps;
  if (blind) m_.blind_took_bf16 = base == bf16;
  const double predicted_us = Predict(base);
  const Trial::Options trial = {.rule = RuleFor(base),
                                .min_blocks = in_doubt ? kBlocksInDoubt : kBaselineBlocks,
                                .may_end_after_one = !in_doubt,
                                .budget_us = budget_us};
  return Compare(base, "compared with the baseline", trial, predicted_us, step_us);
}

}  // namespace gradwire
