#include "runtime/controller/trial_limits.h"

#include <algorithm>
#include <utility>

namespace gradwire {
namespace {

// docs/controller.md has the reason for each.
constexpr int kRememberedWindows = 64;  // after the end of a ban
constexpr double kBudgetShare = 0.006;
constexpr double kLargerBudgetShare = 0.02;
constexpr double kBudgetKeptSteps = 500;
constexpr double kBudgetSteps = 3;
constexpr double kStepsKept = 1;     // by explorations
constexpr double kStepsToBegin = 1;  // a trial

}  // namespace

size_t PlanBans::IndexOf(const Plan& plan) const {
  const auto it = std::find_if(entries_.begin(), entries_.end(),
                               [&](const Entry& entry) { return entry.plan == plan; });
  return static_cast<size_t>(it - entries_.begin());
}

void PlanBans::Ban(const Plan& plan, int64_t window) {
  // What is proposed again long after its ban begins anew.
  std::erase_if(entries_, [&](const Entry& entry) {
    return entry.until_window + kRememberedWindows < window;
  });
  const size_t index = IndexOf(plan);
  if (index == entries_.size()) entries_.push_back({.plan = plan});
  Entry& entry = entries_[index];
  entry.until_window = window + (kFirstWindows << std::min(entry.times, kMaxDoublings));
  ++entry.times;
}

bool PlanBans::IsBanned(const Plan& plan, int64_t window) const {
  const size_t index = IndexOf(plan);
  return index < entries_.size() && entries_[index].until_window > window;
}

int PlanBans::TimesLost(const Plan& plan) const {
  const size_t index = IndexOf(plan);
  return index < entries_.size() ? entries_[index].times : 0;
}

void PlanBans::Add(Entry entry) { entries_.push_back(std::move(entry)); }

void TrialBudget::PassStep(double us, Share share) {
  const double allowed_us = (share == Share::kLarger ? kLargerBudgetShare : kBudgetShare) * us;
  allowed_us_ = std::min(allowed_us_ + allowed_us, spent_us_ + kBudgetKeptSteps * allowed_us);
}

double TrialBudget::LeftBut(double steps, double step_us) const {
  const double left_us = allowed_us_ + (kBudgetSteps - steps) * step_us - spent_us_;
  return left_us >= kStepsToBegin * step_us ? left_us : 0;
}

double TrialBudget::Left(double step_us) const { return LeftBut(0, step_us); }

double TrialBudget::LeftToExplore(double step_us) const { return LeftBut(kStepsKept, step_us); }

void TrialBudget::Rescale(double factor) {
  const double over_us = spent_us_ - allowed_us_;
  if (factor < 1 && over_us > 0) spent_us_ -= (1 - factor) * over_us;
}

}  // namespace gradwire
