// Decider: Decide at work on one input. Its sources follow a training: decide.cc has what comes in
// and what goes out, decide_warm_up.cc the first plans, decide_window.cc what is learnt from a
// window of steps, decide_proposals.cc the plans that are tried next, decide_trial.cc the trials.
#ifndef GRADWIRE_RUNTIME_CONTROLLER_DECIDER_H_
#define GRADWIRE_RUNTIME_CONTROLLER_DECIDER_H_

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/controller/decide.h"

namespace gradwire {

// Weight of what was known against a new window.
inline constexpr double kForget = 0.5;
// What training told of a plan, or of a codec that it no longer runs, counts so long.
inline constexpr int kTriedLifeSteps = 400;
// A plan has run so long before others are explored, and so long is waited between two of them.
inline constexpr int kExploreSteps = 15;
// A step this much longer than usual is no measurement.
inline constexpr double kStaleFactor = 3;
// So many steps in a row that are far from the usual are another network or another compute.
inline constexpr int kStepsOfChange = 3;

class Decider {
 public:
  // All outlive it.
  Decider(const JobFacts& job, const DecideInput& input, Memory* memory)
      : job_(job), input_(input), m_(*memory) {}

  std::optional<Decision> Run();

 private:
  static double Mix(double known, double fresh) { return kForget * known + (1 - kForget) * fresh; }
  double StaleUs() const { return m_.usual_us > 0 ? kStaleFactor * m_.usual_us : INFINITY; }
  double Predict(const Plan& plan) const {
    return Scale(TopRung(plan)) * StepUs(job_, m_.model, plan);
  }
  // True: the running plan's first step was left out before this call.
  bool SkipFirst() { return std::exchange(m_.skipped_first, true); }

  // What comes in.
  std::optional<Decision> Begin();
  std::optional<Decision> Resume();
  void TakeProbes();
  bool RunsB(uint16_t turn) const;
  const Plan& PlanOf(uint16_t turn) const;
  void TakeTensors();
  bool HasRun(const Memory::Tested& tested) const;
  void TakeCost(size_t candidate, double codec_us, double elems);
  bool TakeStep();
  bool NoticeChange(double step_us);
  void ForgetTimes(double factor, double busy_us);
  void Outdate(double factor, double busy_us);
  static Memory::Medians MediansOf(const std::vector<StepInput>& steps);
  Memory::Medians SumUp();
  void Remember(const Plan& plan, const Memory::Medians& medians);
  const Candidate& Running(size_t t) const;  // that it is on
  // Of its rung, over its energy; 0 where it is on none or has not been measured.
  double DistanceOf(size_t t) const;
  Outcome OutcomeOf(double step_us) const;

  // The warm-up: decide_warm_up.cc.
  bool IsSteady() const;
  std::optional<Decision> Measure(Memory::Phase phase, double was_us);
  std::optional<Decision> LeaveOutNone();
  bool RulesOutNone(double bf16_ratio) const;
  std::optional<Decision> GoOnWarmingUp(double was_us);
  const Memory::Tried* FastestTriedBelow(double step_us) const;
  std::optional<Decision> EndOfBf16();
  std::optional<Decision> EndOfNone();
  void Settle();

  // Trials: decide_trial.cc.
  void SpendOnTrial(double us);
  bool IsPairOfB(uint16_t index);
  Verdict AddToTrial();
  std::optional<Decision> StepOfTrial();
  void LearnFromTrial(const Memory::Comparison& ended, Verdict verdict);
  void EndExploration(Verdict verdict);

  // What goes out.
  void Reset(uint16_t from_turn);
  std::optional<Decision> Switch(Plan plan, std::string why, double predicted_us, double was_us);
  bool DifferInFeedback(const Plan& a, const Plan& b) const;
  std::optional<Decision> Compare(Plan other, std::string why, Trial::Options trial,
                                  double predicted_us, double was_us);

  // Windows: decide_window.cc.
  std::optional<Decision> EndOfWindow();
  bool WasFarSlower(const Plan& plan, double step_us) const;
  void CompareWithBefore(const Memory::Medians& sums);
  bool FitPair(const MeasuredPlan& one, const MeasuredPlan& other);
  const Memory::Tried* Partner() const;
  bool FitAgain(const Memory::Medians& medians);
  bool SeesWire(const ModelState& model, const Plan& plan) const;
  bool SeesLink(const ModelState& model, const Plan& plan) const;
  void FollowWire(double busy_us);
  void Learn(const Memory::Medians& sums);
  const Memory::Tried* Known(const Plan& plan) const;
  void RememberWindow(const Memory::Medians& sums);
  double Scale(int top_rung) const;
  std::vector<double> Scales() const;
  bool IsAllowed(size_t t, size_t rung) const;
  // A tensor's rung is known to lose more than it may, or was left for that lately.
  bool IsBeyondBound(const Plan& plan) const;
  double DistanceOf(size_t t, int candidate, double relative_error) const;
  Allowed AllAllowed() const;
  std::optional<Decision> KeepBounds(double step_us);

  // What is tried next: decide_proposals.cc.
  bool IsLighter(const Plan& plan) const;
  std::optional<Decision> Propose(double step_us);
  bool IsMisled() const;
  struct Promise {
    Plan plan;
    double ratio = 1;  // of its step to the running plan's, by the model
  };
  double TellingBytes() const;
  double BytesOfDifference(const Plan& plan) const;
  std::optional<Promise> NeighbourIn(size_t t, const std::vector<bool>& allowed,
                                     double running_us) const;
  std::optional<Promise> AllOnRung(int rung, const Allowed& allowed) const;
  std::optional<Decision> Explore(double step_us);
  double KnownRatio(const Plan& plan, double step_us) const;
  TrialBudget::Share BudgetShare() const;
  static TrialRule RuleFor(const Plan& before);
  const Plan& Baseline(const Plan& none, const Plan& bf16, bool blind, double step_us) const;
  std::optional<Decision> CheckBaseline(double step_us);

  const JobFacts& job_;
  const DecideInput& input_;
  Memory& m_;
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CONTROLLER_DECIDER_H_
