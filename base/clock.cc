#include "base/clock.h"

#include <time.h>

#include <algorithm>
#include <climits>

namespace gradwire {
namespace {

class MonotonicClock final : public Clock {
 public:
  int64_t NowNs() const override {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * kNsPerSecond + now.tv_nsec;
  }
};

}  // namespace

const Clock& SteadyClock() {
  // Never destroyed: threads may still ask while the process runs its exit handlers.
  static const Clock* const kClock = new MonotonicClock;
  return *kClock;
}

Deadline Deadline::After(const Clock& clock, int64_t ns) {
  Deadline deadline = Never();
  if (__builtin_add_overflow(clock.NowNs(), ns, &deadline.at_ns)) {
    deadline.at_ns = ns > 0 ? INT64_MAX : INT64_MIN;
  }
  return deadline;
}

int64_t Deadline::RemainingNs(const Clock& clock) const {
  if (never()) return INT64_MAX;
  const int64_t now_ns = clock.NowNs();
  int64_t remaining_ns = 0;
  if (__builtin_sub_overflow(at_ns, now_ns, &remaining_ns)) return at_ns > now_ns ? INT64_MAX : 0;
  return std::max<int64_t>(remaining_ns, 0);
}

int Deadline::PollTimeoutMs(const Clock& clock) const {
  if (never()) return -1;
  const int64_t remaining_ns = RemainingNs(clock);
  const int64_t ms = remaining_ns / kNsPerMs + (remaining_ns % kNsPerMs != 0 ? 1 : 0);
  return static_cast<int>(std::min<int64_t>(ms, INT_MAX));
}

}  // namespace gradwire
