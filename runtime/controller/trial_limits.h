// What trials may cost: PlanBans has the plans that have lost one and are left alone for a while,
// TrialBudget the time that is left.
#ifndef GRADWIRE_RUNTIME_CONTROLLER_TRIAL_LIMITS_H_
#define GRADWIRE_RUNTIME_CONTROLLER_TRIAL_LIMITS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/controller/model.h"

namespace gradwire {

// `window`: the number of the present one.
class PlanBans {
 public:
  struct Entry {
    Plan plan;
    int64_t until_window = 0;
    int times = 0;  // that it has lost
  };
  // Of a ban. Each further one of the same plan lasts twice as long as the one before.
  static constexpr int kFirstWindows = 8, kMaxDoublings = 6;
  static constexpr int kMaxWindows = kFirstWindows << kMaxDoublings;

  // The plan has lost a trial.
  void Ban(const Plan& plan, int64_t window);
  bool IsBanned(const Plan& plan, int64_t window) const;
  // As far back as bans are remembered, which is for a while after they have ended.
  int TimesLost(const Plan& plan) const;

  // To save them, and to have them back. In order of the first loss that is remembered.
  const std::vector<Entry>& entries() const { return entries_; }
  void Add(Entry entry);

 private:
  // Past the last: it has none.
  size_t IndexOf(const Plan& plan) const;

  std::vector<Entry> entries_;
};

// In microseconds. Trials of slower plans may take a share of the training's time, and a few steps
// before there was any.
class TrialBudget {
 public:
  // kLarger: steps are far shorter than with none, so that trials make none slower than that.
  enum class Share : uint8_t { kUsual, kLarger };

  // A step of training, once it has warmed up. Of what is not spent no more is kept than so many
  // steps allow for as the claim is made for.
  void PassStep(double us, Share share);
  void Spend(double us) { spent_us_ += us; }  // what plans on trial took longer than others
  // `step_us`: what a step takes now. 0: too little for a trial that tells anything.
  double Left(double step_us) const;
  // Likewise to an exploration, which leaves one of those few steps to others.
  double LeftToExplore(double step_us) const;
  // Steps take `factor` of what they took. What was spent beyond the share of the time was allowed
  // in steps, and is paid back in as many of those that are shorter now.
  void Rescale(double factor);

  double spent_us() const { return spent_us_; }

 private:
  double LeftBut(double steps, double step_us) const;

  double allowed_us_ = 0, spent_us_ = 0;  // but for those few steps
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CONTROLLER_TRIAL_LIMITS_H_
