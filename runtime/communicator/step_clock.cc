#include "runtime/communicator/step_clock.h"

#include <algorithm>
#include <vector>

#include "base/clock.h"

namespace gradwire {
namespace {

// Of those that are not empty; the upper one of two in the middle.
double MedianMs(std::vector<int64_t> values_ns) {
  const auto middle = values_ns.begin() + std::ssize(values_ns) / 2;
  std::nth_element(values_ns.begin(), middle, values_ns.end());
  return static_cast<double>(*middle) / static_cast<double>(kNsPerMs);
}

}  // namespace

void StepClock::Begin(int64_t now_ns) {
  if (is_running_) {
    ended_[steps_ % kKept] = {.step_ns = now_ns - begin_ns_, .blocked_ns = blocked_ns_};
    ++steps_;
  }
  is_running_ = true;
  begin_ns_ = now_ns;
  blocked_ns_ = 0;
}

void StepClock::NoteBlocked(int64_t waited_ns) { blocked_ns_ += waited_ns; }

std::optional<StepMedians> StepClock::Medians() const {
  std::vector<int64_t> step, compute, blocked;
  for (int64_t i = 0; i < std::min<int64_t>(steps_, kKept); ++i) {
    step.push_back(ended_[i].step_ns);
    blocked.push_back(ended_[i].blocked_ns);
    compute.push_back(ended_[i].step_ns - ended_[i].blocked_ns);
  }
  if (step.empty()) return std::nullopt;
  return StepMedians{.step_ms = MedianMs(std::move(step)),
                     .compute_ms = MedianMs(std::move(compute)),
                     .exposed_comm_ms = MedianMs(std::move(blocked))};
}

}  // namespace gradwire
