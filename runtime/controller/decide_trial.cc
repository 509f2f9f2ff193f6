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

}  // namespace

// Whether the step at `index` of the pattern, which is stale, is the second of two of plan B.
bool Decider::IsPairOfB(uint16_t index) {
  const std::optional<uint16_t> before = std::exchange(m_.stale_index, index);
  const auto is_b = [this](uint16_t turn) { return &PlanOf(turn) == &*m_.other; };
  const uint16_t turn = input_.step.turn;
  return before && *before + 1 == index && is_b(turn) && is_b(static_cast<uint16_t>(turn - 1));
}

Verdict Decider::AddToTrial() {
  const auto index = static_cast<uint16_t>(input_.step.turn - m_.from_turn);
  const double step_us = input_.step.step_us;
  const bool is_a = &PlanOf(input_.step.turn) == &m_.running;
  if (step_us <= StaleUs()) {
    m_.stale_in_trial = 0;
    if (m_.trial->Tells(index)) (is_a ? m_.window : m_.other_window).push_back(input_.step);
    return m_.trial->Add(index, step_us);
  }
  ++m_.stale_in_trial;
  if (!is_a) m_.spent_us += StaleUs() - m_.usual_us;
  stalled_b_ = IsPairOfB(index);
  return stalled_b_ || m_.stale_in_trial >= kStepsOfChange ? Verdict::kReject : Verdict::kOpen;
}

// What the trial that ends says of plan B.
Decider::TrialResult Decider::SumUpTrial() const {
  const double ratio = std::exp(m_.trial->mean());
  const int blocks = m_.trial->blocks();
  if (blocks > 0) {
    return {.blocks = blocks,
            .ratio = ratio,
            .text = fmt::format("took {:.3f} of the time in {} blocks", ratio, blocks)};
  }
  if (stalled_b_) return {.ratio = kStaleFactor, .text = "was far slower"};
  return {.text = "could not be compared: ranks were late in every block"};
}

std::optional<Decision> Decider::StepOfTrial() {
  const Verdict verdict = AddToTrial();
  if (verdict == Verdict::kOpen) return std::nullopt;
  const TrialResult result = SumUpTrial();
  // Of a plan that was switched to at once it is the running one that may have taken longer.
  const double excess_us = m_.trial->excess_us();
  m_.spent_us += m_.to_verify ? std::abs(excess_us) : std::max(0.0, excess_us);
  if (result.blocks > 0) LearnFromTrial(*m_.other, verdict);
  m_.trial.reset();
  if (m_.to_verify && verdict == Verdict::kKeep) m_.misled_at_step = m_.steps;
  m_.to_verify.reset();
  Plan b = *std::exchange(m_.other, std::nullopt);
  EndExploration(verdict);
  if (std::exchange(m_.left_out_none, false) && !RulesOutNone(result.ratio)) return GoOnWarmingUp();
  if (verdict == Verdict::kKeep) {
    BanPlan(m_.running);
    return Switch(std::move(b), "it " + result.text, m_.predicted_us, m_.was_us);
  }
  BanPlan(b);
  return Switch(m_.running, "the other " + result.text, 0, 0);
}

// Two plans measured by turns.
void Decider::LearnFromTrial(const Plan& b, Verdict verdict) {
  const Memory::Medians a_medians = MediansOf(m_.window);
  Memory::Medians b_medians = MediansOf(m_.other_window);
  if (a_medians.busy_us > 0 && b_medians.busy_us > 0)
    FitPair({m_.running, a_medians.busy_us}, {b, b_medians.busy_us});
  b_medians.step_us = std::exp(m_.trial->mean()) * m_.tried[TopRung(m_.running)].medians.step_us;
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
