#include "runtime/controller/decide.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/controller/auto_spec.h"
#include "runtime/controller/bounds.h"
#include "runtime/controller/plan.h"

namespace gradwire {
namespace {

// docs/controller.md has the reason for each.
constexpr int kWindowSteps = 5;
constexpr int kWarmUpSteps = 10;  // of each of the two plans
constexpr int kProbeLifeSteps = 400;
constexpr double kStaleFactor = 3;  // a step this much longer than usual is no measurement
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
constexpr double kBudgetShare = 0.01;
constexpr double kBudgetSteps = 3;
constexpr size_t kRecentSteps = 25;
constexpr int kStepsOfChange = 3;
constexpr double kFarMads = 5;
constexpr double kLeastMad = 0.01;     // of the median
constexpr double kMaxWireChange = 10;  // in one window
constexpr double kMaxSlowdown = 2;
constexpr double kForget = 0.5;  // weight of what was known against a new window

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <typename Steps, typename Get>
double MedianOf(const Steps& steps, Get get) {
  std::vector<double> values;
  for (const auto& step : steps) values.push_back(get(step));
  return Median(std::move(values));
}

class Decider {
 public:
  Decider(const JobFacts& job, const DecideInput& input, Memory* memory)
      : job_(job), input_(input), m_(*memory) {}

  std::optional<Decision> Run() {
    if (job_.tensors.empty()) return std::nullopt;
    if (m_.running.size() != job_.tensors.size()) return Begin();
    if (m_.phase == Memory::Phase::kResumed) return Resume();
    TakeProbes();
    ++m_.steps;
    const StepInput& step = input_.step;
    // Once, not for ever: the number of a turn wraps.
    m_.in_effect = m_.in_effect || static_cast<int16_t>(step.turn - m_.from_turn) >= 0;
    if (!m_.in_effect) return std::nullopt;
    TakeTensors();
    if (m_.phase == Memory::Phase::kSettled) m_.time_us += std::min(step.step_us, StaleUs());
    if (m_.trial) return StepOfTrial();
    if (!TakeStep()) return std::nullopt;
    switch (m_.phase) {
      case Memory::Phase::kNone: return EndOfNone();
      case Memory::Phase::kBf16: return EndOfBf16();
      case Memory::Phase::kSettled:
      case Memory::Phase::kResumed: return EndOfWindow();
    }
    return std::nullopt;
  }

 private:
  // ---- what comes in ----

  // Also for a job that takes the place of another, whose last plan may be in effect.
  std::optional<Decision> Begin() {
    m_ = Memory();
    const size_t tensors = job_.tensors.size();
    m_.tensors.resize(tensors);
    m_.candidates.resize(job_.candidates.size());
    m_.model.ready_us.assign(tensors, 0);
    m_.model.codec_us_per_elem.assign(job_.candidates.size(), -1);
    m_.forbidden.resize(tensors);
    for (size_t t = 0; t < tensors; ++t) m_.forbidden[t].assign(job_.tensors[t].ladder.size(), 0);
    return Switch(AllOn(job_, kNoneRung), "warm-up: none is measured", 0, 0);
  }

  std::optional<Decision> Resume() {
    m_.phase = Memory::Phase::kSettled;
    return Switch(m_.running, "resumed from a saved state", m_.resumed_us.value_or(0), 0);
  }

  // A longer step is no measurement.
  double StaleUs() const { return m_.usual_us > 0 ? kStaleFactor * m_.usual_us : INFINITY; }

  void TakeProbes() {
    for (const ProbeResult& probe : input_.probes) {
      Memory::Tested& tested = m_.candidates[probe.candidate];
      const bool first = tested.relative_error < 0;
      // The worst of late: tensors differ, and a probe sees one of them.
      tested.relative_error =
          std::max(probe.relative_error, first ? 0 : kForget * tested.relative_error);
      tested.at_step = m_.steps;
      double& cost = m_.model.codec_us_per_elem[probe.candidate];
      cost = cost < 0 ? probe.codec_us_per_elem : Mix(cost, probe.codec_us_per_elem);
    }
  }

  static double Mix(double known, double fresh) { return kForget * known + (1 - kForget) * fresh; }

  // The rungs of a step: those of plan B in every second pair of a trial.
  const Plan& PlanOf(uint16_t turn) const {
    if (!m_.other) return m_.running;
    const PlanOrder pattern = {.from_turn = m_.from_turn};
    return RunsPlanB(pattern, turn) ? *m_.other : m_.running;
  }

  void TakeTensors() {
    const std::vector<TensorObservation>& seen = input_.step.tensors;
    const Plan& plan = PlanOf(input_.step.turn);
    std::vector<double> codec_us(job_.candidates.size()), elems(job_.candidates.size());
    size_t t = 0;
    for (const TensorObservation& o : seen) {
      while (t < job_.tensors.size() && job_.tensors[t].id < o.tensor) ++t;
      if (t == job_.tensors.size() || job_.tensors[t].id != o.tensor) continue;
      double& ready = m_.model.ready_us[t];
      ready = ready == 0 ? o.ready_us : Mix(ready, o.ready_us);
      const int candidate = job_.tensors[t].ladder[plan[t]].candidate;
      codec_us[candidate] += o.codec_us;
      elems[candidate] += static_cast<double>(job_.tensors[t].elems);
      if (plan[t] != m_.running[t]) continue;
      m_.tensors[t].energy = o.energy;
      m_.tensors[t].error = o.error;
    }
    for (size_t c = 0; c < codec_us.size(); ++c) {
      if (elems[c] > 0) m_.model.codec_us_per_elem[c] = codec_us[c] / elems[c];
    }
  }

  // True: a window is full.
  bool TakeStep() {
    const StepInput& step = input_.step;
    // The first one of a plan allocates, and sends what the one before has kept back.
    if (m_.recent_us.empty() && m_.window.empty() && !skipped_first()) return false;
    if (m_.phase == Memory::Phase::kSettled && NoticeChange(step.step_us)) m_.window.clear();
    const bool stale = step.step_us > StaleUs() && m_.outside < kStepsOfChange;
    m_.recent_us.push_back(step.step_us);
    if (m_.recent_us.size() > kRecentSteps) m_.recent_us.pop_front();
    m_.usual_us = Median({m_.recent_us.begin(), m_.recent_us.end()});
    if (stale) return false;
    m_.window.push_back(step);
    const bool warm = m_.phase == Memory::Phase::kSettled;
    return static_cast<int>(m_.window.size()) >= (warm ? kWindowSteps : kWarmUpSteps);
  }

  bool skipped_first() { return std::exchange(m_.skipped_first, true); }

  // Steps that lie far from the others, several in a row: the network or the compute is another.
  bool NoticeChange(double step_us) {
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
      ForgetTimes();
    }
    return m_.outside == kStepsOfChange;
  }

  void ForgetTimes() {
    m_.bans.clear();
    m_.changed = true;
    m_.none = m_.bf16 = {};
  }

  // The training may go on elsewhere than it was saved.
  void CompareWithSaved(double step_us) {
    if (!m_.resumed_us) return;
    const double saved_us = *std::exchange(m_.resumed_us, std::nullopt);
    if (std::abs(step_us - saved_us) > kModelOff * saved_us) ForgetTimes();
  }

  Memory::Medians SumUp() {
    const Memory::Medians sums = {
        MedianOf(m_.window, [](const StepInput& s) { return s.step_us; }),
        MedianOf(m_.window, [](const StepInput& s) { return s.busy_us; }),
        MedianOf(m_.window, [](const StepInput& s) { return s.compute_us; })};
    m_.window.clear();
    return sums;
  }

  // ---- warm-up ----

  std::optional<Decision> EndOfNone() {
    m_.none = SumUp();
    m_.phase = Memory::Phase::kBf16;
    return Switch(AllOn(job_, kBf16Rung), "warm-up: bf16 is measured", 0, m_.none.step_us);
  }

  std::optional<Decision> EndOfBf16() {
    m_.bf16 = SumUp();
    m_.phase = Memory::Phase::kSettled;
    Fit();
    m_.last_baseline_step = m_.steps;
    const bool worth = m_.bf16.step_us < kWorthTrying * m_.none.step_us;
    if (worth) return std::nullopt;
    return Switch(AllOn(job_, kNoneRung), "warm-up: bf16 is no faster than none", m_.none.step_us,
                  m_.bf16.step_us);
  }

  void Fit() {
    FitWire(job_, {AllOn(job_, kNoneRung), m_.none.busy_us, m_.none.compute_us},
            {AllOn(job_, kBf16Rung), m_.bf16.busy_us, m_.bf16.compute_us}, &m_.model);
  }

  // ---- windows ----

  std::optional<Decision> EndOfWindow() {
    const Memory::Medians sums = SumUp();
    ++m_.windows;
    CompareWithSaved(sums.step_us);
    Learn(sums);
    if (std::optional<Decision> safer = KeepBounds(sums.step_us)) return safer;
    if (m_.to_verify) {
      Plan old = *std::exchange(m_.to_verify, std::nullopt);
      return Compare(std::move(old), "compared with the plan before",
                     {.budget_us = Budget(sums.step_us)}, 0, sums.step_us);
    }
    if (std::optional<Decision> better = Propose(sums.step_us)) return better;
    return CheckBaseline(sums.step_us);
  }

  // Both plans that differ in bytes alone, measured since the last change: the model is fitted
  // anew.
  bool FitAgain(const Memory::Medians& medians) {
    const bool is_none = m_.running == AllOn(job_, kNoneRung);
    const bool is_bf16 = m_.running == AllOn(job_, kBf16Rung);
    if (!is_none && !is_bf16) return false;
    (is_none ? m_.none : m_.bf16) = medians;
    const bool both = m_.none.step_us > 0 && m_.bf16.step_us > 0;
    if (both) Fit();
    return both;
  }

  void Learn(const Memory::Medians& sums) {
    ModelState& model = m_.model;
    double codec_us = 0;
    for (size_t t = 0; t < m_.running.size(); ++t)
      codec_us += CodecUs(job_, model, static_cast<int>(t), m_.running[t]);
    const double added_us = sums.compute_us - model.compute_us;
    if (codec_us < kLeastMad * sums.step_us || added_us < 0) {
      model.compute_us = Mix(model.compute_us, sums.compute_us);
    } else {
      model.slowdown = Mix(model.slowdown, std::min(added_us / codec_us, kMaxSlowdown));
    }
    const double predicted_busy = BusyUs(job_, model, m_.running);
    if (!FitAgain(sums) && predicted_busy > 0 && sums.busy_us > 0) {
      double factor = std::clamp(sums.busy_us / predicted_busy, 1 / kMaxWireChange, kMaxWireChange);
      if (!m_.changed) factor = std::pow(factor, 1 - kForget);
      model.latency_us *= factor;
      model.us_per_byte *= factor;
    }
    m_.changed = false;
    const double predicted_us = StepUs(job_, model, m_.running);
    m_.scale = predicted_us > 0 ? sums.step_us / predicted_us : 1;
    m_.model_off = std::abs(m_.scale - 1) > kModelOff;
  }

  double Predict(const Plan& plan) const { return m_.scale * StepUs(job_, m_.model, plan); }

  bool IsAllowed(size_t t, size_t rung) const {
    if (rung == kNoneRung) return true;
    const JobRung& r = job_.tensors[t].ladder[rung];
    if (!r.usable() || m_.forbidden[t][rung] > m_.windows) return false;
    if (m_.running[t] == rung) return true;  // its bound is kept by measuring it
    const Memory::Tested& tested = m_.candidates[r.candidate];
    if (tested.relative_error < 0 || m_.steps - tested.at_step > kProbeLifeSteps) return false;
    const Candidate& candidate = job_.candidates[r.candidate];
    return Distance(candidate, tested.relative_error, job_.world_size) <= candidate.bound;
  }

  Allowed AllAllowed() const {
    Allowed allowed(job_.tensors.size());
    for (size_t t = 0; t < allowed.size(); ++t) {
      for (size_t r = 0; r < job_.tensors[t].ladder.size(); ++r)
        allowed[t].push_back(IsAllowed(t, r));
    }
    return allowed;
  }

  // A tensor whose error is beyond its bound goes down a rung, at once and without a trial.
  std::optional<Decision> KeepBounds(double step_us) {
    Plan safer = m_.running;
    for (size_t t = 0; t < safer.size(); ++t) {
      Memory::Measured& measured = m_.tensors[t];
      const Candidate& candidate = job_.candidates[job_.tensors[t].ladder[safer[t]].candidate];
      const bool over =
          safer[t] != kNoneRung && measured.energy > 0 &&
          Distance(candidate, measured.error / measured.energy, job_.world_size) > candidate.bound;
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

  bool IsBanned(const Plan& plan) const {
    return std::any_of(m_.bans.begin(), m_.bans.end(), [&](const Memory::Ban& ban) {
      return ban.plan == plan && ban.until_window > m_.windows;
    });
  }

  void BanPlan(const Plan& plan) {
    // Long expired: what is proposed again begins anew.
    std::erase_if(m_.bans, [&](const Memory::Ban& ban) {
      return ban.until_window + kForbidWindows < m_.windows;
    });
    auto it = std::find_if(m_.bans.begin(), m_.bans.end(),
                           [&](const Memory::Ban& ban) { return ban.plan == plan; });
    if (it == m_.bans.end()) it = m_.bans.insert(m_.bans.end(), {.plan = plan});
    it->until_window = m_.windows + (kBanWindows << std::min(it->times++, kMaxBanDoublings));
  }

  double Budget(double step_us) const {
    return std::max(0.0, kBudgetShare * m_.time_us + kBudgetSteps * step_us - m_.spent_us);
  }

  // Whether no tensor is on a higher rung of its ladder, and one on a lower.
  bool IsLighter(const Plan& plan) const {
    for (size_t t = 0; t < plan.size(); ++t) {
      if (plan[t] > m_.running[t]) return false;
    }
    return plan != m_.running;
  }

  std::optional<Decision> Propose(double step_us) {
    Plan best = BestPlan(job_, m_.model, AllAllowed());
    if (best == m_.running || IsBanned(best)) return std::nullopt;
    const double predicted_us = Predict(best);
    const bool lighter = IsLighter(best);
    if (predicted_us > (lighter ? 1.0 : kWorthTrying) * step_us) return std::nullopt;
    if (predicted_us < kWorthSwitching * step_us) {
      m_.to_verify = m_.running;
      return Switch(std::move(best), "much faster by prediction", predicted_us, step_us);
    }
    if (Budget(step_us) <= 0) return std::nullopt;
    return Compare(std::move(best), "compared: it may be better",
                   {.rule = lighter ? kMayBeEqual : kMustBeFaster, .budget_us = Budget(step_us)},
                   predicted_us, step_us);
  }

  // Whatever the model says, every now and then the plain sum or bf16 is measured again.
  std::optional<Decision> CheckBaseline(double step_us) {
    const int64_t since = m_.steps - m_.last_baseline_step;
    if (since < (m_.model_off ? kBaselineAgainSteps : kBaselineEverySteps)) return std::nullopt;
    Plan none = AllOn(job_, kNoneRung), bf16 = AllOn(job_, kBf16Rung);
    // Where one of them runs the other is measured: the model cannot tell what it has not seen.
    const bool take_bf16 =
        m_.running != bf16 && (m_.running == none || Predict(bf16) < Predict(none));
    // What was slower under the same network is seldom measured again: its steps cost what they
    // take.
    const double measured_us = (take_bf16 ? m_.bf16 : m_.none).step_us;
    if (measured_us > step_us && since < kSlowerBaselineEverySteps) return std::nullopt;
    m_.last_baseline_step = m_.steps;
    Plan base = take_bf16 ? std::move(bf16) : std::move(none);
    if (base == m_.running || IsBanned(base) || Budget(step_us) <= 0) return std::nullopt;
    const double predicted_us = Predict(base);
    return Compare(std::move(base), "compared with the baseline",
                   {.min_blocks = kBaselineBlocks, .budget_us = Budget(step_us)}, predicted_us,
                   step_us);
  }

  // ---- trials ----

  std::optional<Decision> StepOfTrial() {
    const auto index = static_cast<uint16_t>(input_.step.turn - m_.from_turn);
    const double step_us = input_.step.step_us;
    Verdict verdict = Verdict::kOpen;
    if (step_us <= StaleUs()) {
      verdict = m_.trial->Add(index, step_us);
    } else if (++m_.stale_in_trial >= kStepsOfChange) {
      verdict = Verdict::kReject;  // of either plan: there is nothing to compare
      m_.spent_us += m_.stale_in_trial * (StaleUs() - m_.usual_us);
    }
    if (verdict == Verdict::kOpen) return std::nullopt;
    m_.spent_us += std::max(0.0, m_.trial->excess_us());
    const double ratio = std::exp(m_.trial->mean());
    const int blocks = m_.trial->blocks();
    m_.trial.reset();
    Plan b = *std::exchange(m_.other, std::nullopt);
    if (verdict == Verdict::kKeep) {
      BanPlan(m_.running);
      return Switch(std::move(b),
                    fmt::format("it took {:.3f} of the time in {} blocks", ratio, blocks), 0, 0);
    }
    BanPlan(b);
    if (blocks == 0) return Switch(m_.running, "the other was far slower", 0, 0);
    return Switch(m_.running,
                  fmt::format("the other took {:.3f} of the time in {} blocks", ratio, blocks), 0,
                  0);
  }

  // ---- what goes out ----

  void Reset(uint16_t from_turn) {
    m_.in_effect = false;
    m_.from_turn = from_turn;
    m_.window.clear();
    m_.recent_us.clear();
    m_.outside = 0;
    m_.skipped_first = false;
    for (Memory::Measured& measured : m_.tensors) measured = {};
  }

  std::optional<Decision> Switch(Plan plan, std::string why, double predicted_us, double was_us) {
    const auto from_turn = static_cast<uint16_t>(input_.turn + kTurnsToOrder);
    m_.running = plan;
    m_.usual_us = 0;
    Reset(from_turn);
    return Decision{from_turn, plan, plan, std::move(why), predicted_us, was_us};
  }

  std::optional<Decision> Compare(Plan other, std::string why, const Trial::Options& trial,
                                  double predicted_us, double was_us) {
    const auto from_turn = static_cast<uint16_t>(input_.turn + kTurnsToOrder);
    m_.stale_in_trial = 0;
    m_.trial.emplace(trial);
    m_.other = std::move(other);
    Reset(from_turn);
    return Decision{from_turn, m_.running, *m_.other, std::move(why), predicted_us, was_us};
  }

  const JobFacts& job_;
  const DecideInput& input_;
  Memory& m_;
};

}  // namespace

std::optional<Decision> Decide(const JobFacts& job, const DecideInput& input, Memory* memory) {
  return Decider(job, input, memory).Run();
}

}  // namespace gradwire
