#include "runtime/controller/decide.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/wrapping.h"
#include "runtime/controller/bounds.h"
#include "runtime/controller/decider.h"
#include "runtime/controller/plan.h"
#include "runtime/spec/auto_spec.h"

namespace gradwire {
namespace {

// docs/controller.md has the reason for each.
constexpr size_t kWindowSteps = 5;
constexpr size_t kRecentSteps = 24;  // as many longer ones as shorter ones, where steps alternate
constexpr double kFarMads = 5;
constexpr double kLeastMad = 0.01;  // of the median
constexpr double kForgetLess = 0.875;
// Fewer elements tell what calls cost rather than elements: as many as a probe has, or, where that
// is less, this share of all.
constexpr double kTellingElems = 65536;
constexpr double kTellingShare = 0.1;
// Of a probe's piece: those that are so many times fewer than others tell nothing beside them.
constexpr int64_t kFarFewer = 4;

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

template <typename Steps, typename Get>
double MedianOf(const Steps& steps, Get get) {
  std::vector<double> values;
  for (const auto& step : steps) values.push_back(get(step));
  return Median(std::move(values));
}

}  // namespace

Memory::Medians Decider::MediansOf(const std::vector<StepInput>& steps) {
  return {MedianOf(steps, [](const StepInput& s) { return s.step_us; }),
          MedianOf(steps, [](const StepInput& s) { return s.busy_us; }),
          MedianOf(steps, [](const StepInput& s) { return s.compute_us; })};
}

std::optional<Decision> Decider::Run() {
  m_.outcome.reset();
  if (job_.tensors.empty()) return std::nullopt;
  if (m_.running.size() != job_.tensors.size()) return Begin();
  if (m_.phase == Memory::Phase::kResumed) return Resume();
  TakeProbes();
  ++m_.steps;
  const StepInput& step = input_.step;
  // Once, not for ever: the number of a turn wraps.
  m_.in_effect = m_.in_effect || TurnsAhead(step.turn, m_.from_turn) >= 0;
  if (!m_.in_effect) return std::nullopt;
  TakeTensors();
  if (m_.phase == Memory::Phase::kSettled)
    m_.budget.PassStep(std::min(step.step_us, StaleUs()), BudgetShare());
  if (m_.comparison) return StepOfTrial();
  const bool full = TakeStep();
  if (std::optional<Decision> clear = LeaveOutNone()) return clear;
  if (!full) return std::nullopt;
  switch (m_.phase) {
    case Memory::Phase::kBf16: return EndOfBf16();
    case Memory::Phase::kNone: return EndOfNone();
    case Memory::Phase::kSettled:
    case Memory::Phase::kResumed: return EndOfWindow();
  }
  return std::nullopt;
}

// ---- what comes in ----

// Also for a job that takes the place of another, whose last plan may be in effect.
std::optional<Decision> Decider::Begin() {
  m_ = Memory();
  const size_t tensors = job_.tensors.size();
  m_.tensors.resize(tensors);
  m_.alike.assign(tensors, kNothingInCommon);
  m_.candidates.resize(job_.candidates.size());
  m_.model.ready_us.assign(tensors, 0);
  m_.model.codec_us_per_elem.assign(job_.candidates.size(), -1);
  m_.forbidden.resize(tensors);
  for (size_t t = 0; t < tensors; ++t) m_.forbidden[t].assign(job_.tensors[t].ladder.size(), 0);
  TakeProbes();
  std::optional<Decision> bf16 = Measure(Memory::Phase::kBf16, 0);
  if (input_.unplanned) {  // it is in effect already, and this was its first step
    m_.from_turn = input_.step.turn;
    m_.in_effect = true;
    SkipFirst();
  }
  return bf16;
}

std::optional<Decision> Decider::Resume() {
  m_.phase = Memory::Phase::kSettled;
  const double saved_us = m_.expected_us;
  std::optional<Decision> decision = Switch(m_.running, "resumed from a saved state", saved_us, 0);
  m_.expected_us = saved_us;
  return decision;
}

void Decider::TakeProbes() {
  for (const ProbeResult& probe : input_.probes) {
    Memory::Tested& tested = m_.candidates[probe.candidate];
    const bool first = tested.relative_error < 0;
    // The worst of late: tensors differ, and a probe sees one of them.
    tested.relative_error =
        std::max(probe.relative_error, first ? 0 : kForget * tested.relative_error);
    tested.at_step = m_.steps;
    // What training's own steps tell is no guess.
    if (HasRun(tested)) continue;
    const int64_t elems = std::min(probe.elems, kTellingPieceElems);
    if (kFarFewer * elems < tested.probed_elems) continue;
    double& cost = m_.model.codec_us_per_elem[probe.candidate];
    const bool tells_more = elems > kFarFewer * tested.probed_elems;
    tested.probed_elems = std::max(tested.probed_elems, elems);
    // Whatever disturbs a probe makes it longer.
    const bool less = cost < 0 || tells_more || probe.codec_us_per_elem < cost;
    cost = less ? probe.codec_us_per_elem
                : kForgetLess * cost + (1 - kForgetLess) * probe.codec_us_per_elem;
  }
}

bool Decider::RunsB(uint16_t turn) const {
  if (!m_.comparison) return false;
  const uint8_t in_a_row = m_.comparison->trial.in_a_row();
  return RunsPlanB({.from_turn = m_.from_turn, .in_a_row = in_a_row}, turn);
}

// The rungs of a step.
const Plan& Decider::PlanOf(uint16_t turn) const {
  return RunsB(turn) ? m_.comparison->b : m_.running;
}

void Decider::TakeTensors() {
  const std::vector<TensorObservation>& seen = input_.step.tensors;
  if (seen.empty()) return;
  const Plan& plan = PlanOf(input_.step.turn);
  std::vector<double> codec_us(job_.candidates.size()), elems(job_.candidates.size());
  size_t t = 0;
  for (const TensorObservation& o : seen) {
    while (t < job_.tensors.size() && job_.tensors[t].id < o.tensor) ++t;
    if (t == job_.tensors.size() || job_.tensors[t].id != o.tensor) continue;
    double& ready = m_.model.ready_us[t];
    ready = ready == 0 ? o.ready_us : Mix(ready, o.ready_us);
    // Not submitted in this step. None costs nothing, but where it sends along what was kept.
    if (plan[t] != kNoneRung && o.energy == 0 && o.codec_us == 0) continue;
    const int candidate = job_.tensors[t].ladder[plan[t]].candidate;
    codec_us[candidate] += o.codec_us;
    elems[candidate] += static_cast<double>(job_.tensors[t].elems);
    const Loss loss = LossOf(job_.candidates[candidate], o, job_.world_size);
    m_.alike[t] = loss.alike.value_or(m_.alike[t]);
    // So large that its energy is not finite: nothing was measured.
    const bool measured =
        o.energy > 0 && o.energy < kMostEnergy && std::isfinite(loss.relative_error);
    // Compared with a codec that keeps nothing back, the tensor's residual is sent on in between.
    const bool alternates = m_.comparison && m_.comparison->b[t] != m_.running[t];
    if (alternates || !measured) continue;
    // Codecs that send a part of what they make in a step lose more in some steps than in others.
    double& lost = m_.tensors[t].relative_error;
    lost = lost == 0 ? loss.relative_error : Mix(lost, loss.relative_error);
  }
  for (size_t c = 0; c < codec_us.size(); ++c) TakeCost(c, codec_us[c], elems[c]);
}

// What a codec costs in training outweighs probes for as long as a plan's time does.
bool Decider::HasRun(const Memory::Tested& tested) const {
  return tested.ran_at_step && m_.steps - *tested.ran_at_step <= kTriedLifeSteps;
}

void Decider::TakeCost(size_t candidate, double codec_us, double elems) {
  double all = 0;
  for (const JobTensor& tensor : job_.tensors) all += static_cast<double>(tensor.elems);
  if (elems <= 0 || elems < std::min(kTellingElems, kTellingShare * all)) return;
  Memory::Tested& tested = m_.candidates[candidate];
  double& cost = m_.model.codec_us_per_elem[candidate];
  cost = HasRun(tested) ? Mix(cost, codec_us / elems) : codec_us / elems;
  tested.ran_at_step = m_.steps;
  tested.probed_elems = kTellingPieceElems;  // it tells as much
}

// True: a window is full.
bool Decider::TakeStep() {
  const StepInput& step = input_.step;
  // The first one of a plan allocates, and sends what the one before has kept back.
  if (m_.recent_us.empty() && m_.window.empty() && !SkipFirst()) return false;
  if (m_.phase == Memory::Phase::kSettled && NoticeChange(step.step_us)) m_.window.clear();
  const bool stale = step.step_us > StaleUs() && m_.outside < kStepsOfChange;
  m_.recent_us.push_back(step.step_us);
  if (m_.recent_us.size() > kRecentSteps) m_.recent_us.pop_front();
  m_.usual_us = Median({m_.recent_us.begin(), m_.recent_us.end()});
  if (stale) return false;
  m_.window.push_back(step);
  return m_.phase == Memory::Phase::kSettled ? m_.window.size() >= kWindowSteps : IsSteady();
}

// Steps that lie far from the others, several in a row: the network or the compute is another.
bool Decider::NoticeChange(double step_us) {
  const std::vector<double> recent(m_.recent_us.begin(), m_.recent_us.end());
  if (recent.size() < kWindowSteps) return false;
  const double middle = Median(recent);
  std::vector<double> distances;
  for (const double us : recent) distances.push_back(std::abs(us - middle));
  const double mad = std::max(Median(std::move(distances)), kLeastMad * middle);
  m_.outside = std::abs(step_us - middle) > kFarMads * mad ? m_.outside + 1 : 0;
  if (m_.outside < kStepsOfChange) return false;
  if (m_.outside == kStepsOfChange) {
    m_.recent_us.clear();
    ForgetTimes(step_us / middle, input_.step.busy_us);
  }
  return m_.outside == kStepsOfChange;
}

// `factor`: the running plan's step over what it took before. `busy_us`: of that step.
void Decider::ForgetTimes(double factor, double busy_us) {
  m_.bans = {};
  m_.exploration = {};
  for (Memory::Tested& tested : m_.candidates) tested.ran_at_step.reset();
  m_.budget.Rescale(factor);
  m_.none_ruled_out = false;
  m_.changed = true;
  Outdate(factor, busy_us);
}

// What steps of other plans take at least. Where the running plan's got no shorter theirs did not
// either; where they did, those of plans with fewer bytes, which a faster wire helps less, got
// shorter by that at most. What those with more bytes got shorter by is told by how much faster the
// link must be for the running plan to be under way for `busy_us`, if that sees its link.
void Decider::Outdate(double factor, double busy_us) {
  const double bytes = WireBytes(job_, m_.running);
  const Memory::Tried* own = Known(m_.running);
  const bool sees_link = own != nullptr && own->is_current() && SeesLink(m_.model, m_.running);
  ModelState faster = m_.model;
  if (sees_link) {
    faster =
        ScaleLink(m_.model, LinkFactor(job_, m_.model, m_.running, busy_us / own->medians.busy_us));
  }
  for (Memory::Tried& tried : m_.tried) {
    if (tried.plan.empty()) continue;
    if (factor >= 1 || WireBytes(job_, tried.plan) <= bytes) {
      tried.KeepAtLeast(factor);
    } else if (sees_link) {
      tried.KeepAtLeast(
          std::min(factor, StepUs(job_, faster, tried.plan) / StepUs(job_, m_.model, tried.plan)));
    } else {
      tried = {};
    }
  }
}

Memory::Medians Decider::SumUp() {
  const Memory::Medians sums = MediansOf(m_.window);
  m_.window.clear();
  if (std::exchange(m_.to_tell, false)) m_.outcome = OutcomeOf(sums.step_us);
  return sums;
}

void Decider::Remember(const Plan& plan, const Memory::Medians& medians) {
  m_.tried.resize(LongestLadder(job_));
  m_.tried[TopRung(plan)] = {plan, medians, m_.steps};
}

// ---- what goes out ----

void Decider::Reset(uint16_t from_turn) {
  m_.in_effect = false;
  m_.from_turn = from_turn;
  m_.window.clear();
  m_.recent_us.clear();
  m_.outside = 0;
  m_.skipped_first = false;
}

std::optional<Decision> Decider::Switch(Plan plan, std::string why, double predicted_us,
                                        double was_us) {
  const auto from_turn = static_cast<uint16_t>(input_.turn + kTurnsToOrder);
  const Memory::Tried* known = Known(plan);
  m_.expected_us = known != nullptr && known->is_current() ? known->medians.step_us : 0;
  // What stays on its rung may be over its bound already.
  for (size_t t = 0; t < plan.size(); ++t) {
    if (t >= m_.running.size() || plan[t] != m_.running[t]) m_.tensors[t] = {};
  }
  m_.running = plan;
  m_.usual_us = 0;
  m_.to_tell = true;
  Reset(from_turn);
  return Decision{.from_turn = from_turn,
                  .a = plan,
                  .b = plan,
                  .why = std::move(why),
                  .predicted_us = predicted_us,
                  .was_us = was_us};
}

// Whether the first step of either after the other makes or sends on what codecs keep back.
bool Decider::DifferInFeedback(const Plan& a, const Plan& b) const {
  for (size_t t = 0; t < a.size(); ++t) {
    const std::vector<JobRung>& ladder = job_.tensors[t].ladder;
    const auto keeps = [&](uint8_t rung) {
      return job_.candidates[ladder[rung].candidate].feedback;
    };
    if (keeps(a[t]) != keeps(b[t])) return true;
  }
  return false;
}

std::optional<Decision> Decider::Compare(Plan other, std::string why, Trial::Options trial,
                                         double predicted_us, double was_us) {
  const auto from_turn = static_cast<uint16_t>(input_.turn + kTurnsToOrder);
  m_.to_tell = false;
  trial.settles = DifferInFeedback(m_.running, other);
  trial.b_is_lighter = IsLighter(other);
  m_.comparison = Memory::Comparison{
      .b = std::move(other), .trial = Trial(trial), .predicted_us = predicted_us, .was_us = was_us};
  Reset(from_turn);
  return Decision{.from_turn = from_turn,
                  .a = m_.running,
                  .b = m_.comparison->b,
                  .in_a_row = m_.comparison->trial.in_a_row(),
                  .why = std::move(why),
                  .predicted_us = predicted_us,
                  .was_us = was_us};
}

std::optional<Decision> Decide(const JobFacts& job, const DecideInput& input, Memory* memory) {
  return Decider(job, input, memory).Run();
}

}  // namespace gradwire
