// Plans on trial: what their steps add to it, and what its end leads to.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "runtime/controller/decider.h"

namespace gradwire {
namespace {

// docs/controller.md has the reason for each.
constexpr int kLostPerDoubling = 2;
constexpr int kMaxExploreDoublings = 6;

struct TrialResult {
  int blocks = 0;    // that counted
  double ratio = 1;  // plan B's step over plan A's
  std::string text;  // what plan B did
};

TrialResult ResultOf(const Memory::Comparison& ended) {
  const double ratio = std::exp(ended.trial.mean());
  const int blocks = ended.trial.blocks();
  if (blocks > 0) {
    return {.blocks = blocks,
            .ratio = ratio,
            .text = fmt::format("took {:.3f} of the time in {} blocks", ratio, blocks)};
  }
  if (ended.has_b_stalled) return {.ratio = kStaleFactor, .text = "was far slower"};
  return {.text = "could not be compared: ranks were late in every block"};
}

}  // namespace

// The comparison that takes the place of measuring none belongs to the warm-up.
void Decider::SpendOnTrial(double us) {
  if (!m_.left_out_none) m_.budget.Spend(us);
}

// Whether the step at `index` of the pattern, which is stale, is the second of two of plan B.
bool Decider::IsPairOfB(uint16_t index) {
  const std::optional<uint16_t> before = std::exchange(m_.comparison->stale_at, index);
  const uint16_t turn = input_.step.turn;
  return before && *before + 1 == index && RunsB(turn) && RunsB(static_cast<uint16_t>(turn - 1));
}

Verdict Decider::AddToTrial() {
  Memory::Comparison& compared = *m_.comparison;
  const StepInput& step = input_.step;
  const auto index = static_cast<uint16_t>(step.turn - m_.from_turn);
  const bool is_b = RunsB(step.turn);
  if (step.step_us <= StaleUs()) {
    compared.stale_steps = 0;
    if (compared.trial.Tells(index))
      (is_b ? compared.steps_of_b : compared.steps_of_a).push_back(step);
    return compared.trial.Add(index, step.step_us);
  }
  ++compared.stale_steps;
  if (is_b) SpendOnTrial(StaleUs() - m_.usual_us);
  compared.has_b_stalled = IsPairOfB(index);
  const bool ends = compared.has_b_stalled || compared.stale_steps >= kStepsOfChange;
  return ends ? Verdict::kReject : Verdict::kOpen;
}

std::optional<Decision> Decider::StepOfTrial() {
  const Verdict verdict = AddToTrial();
  if (verdict == Verdict::kOpen) return std::nullopt;
  Memory::Comparison ended = *std::exchange(m_.comparison, std::nullopt);
  const TrialResult result = ResultOf(ended);
  // Of a plan that was switched to at once it is the running one that may have taken longer.
  const double excess_us = ended.trial.excess_us();
  SpendOnTrial(m_.to_verify ? std::abs(excess_us) : std::max(0.0, excess_us));
  if (result.blocks > 0) LearnFromTrial(ended, verdict);
  if (m_.to_verify && verdict == Verdict::kKeep) m_.misled_at_step = m_.steps;
  m_.to_verify.reset();
  EndExploration(verdict);
  if (std::exchange(m_.left_out_none, false)) {
    m_.none_ruled_out = RulesOutNone(result.ratio);
    if (!m_.none_ruled_out) return GoOnWarmingUp(ended.was_us);
  }
  if (verdict == Verdict::kKeep) {
    m_.bans.Ban(m_.running, m_.windows);
    return Switch(std::move(ended.b), "it " + result.text, ended.predicted_us, ended.was_us);
  }
  m_.bans.Ban(ended.b, m_.windows);
  return Switch(m_.running, "the other " + result.text, 0, 0);
}

// Two plans measured by turns.
void Decider::LearnFromTrial(const Memory::Comparison& ended, Verdict verdict) {
  const Plan& b = ended.b;
  const Memory::Medians a_medians = MediansOf(ended.steps_of_a);
  Memory::Medians b_medians = MediansOf(ended.steps_of_b);
  if (a_medians.busy_us > 0 && b_medians.busy_us > 0)
    FitPair({m_.running, a_medians.busy_us}, {b, b_medians.busy_us});
  b_medians.step_us = std::exp(ended.trial.mean()) * m_.tried[TopRung(m_.running)].medians.step_us;
  // A rung has room for one plan. The one that runs on is needed: its next window is compared with
  // what it took before.
  // What an exploration takes says little of its rung: it takes no other plan's place.
  const bool has_room = TopRung(b) != TopRung(m_.running) && !m_.exploration.subject;
  if (verdict == Verdict::kKeep || has_room) Remember(b, b_medians);
}

void Decider::EndExploration(Verdict verdict) {
  Memory::Exploration& exploration = m_.exploration;
  const std::optional<size_t> subject = std::exchange(exploration.subject, std::nullopt);
  if (!subject) return;
  if (verdict == Verdict::kKeep) {
    exploration = {};
    return;
  }
  const int lost = std::reduce(exploration.lost.begin(), exploration.lost.end());
  ++exploration.lost[*subject];
  exploration.not_before_step =
      m_.steps + (kExploreSteps << std::min(lost / kLostPerDoubling, kMaxExploreDoublings));
}

}  // namespace gradwire
