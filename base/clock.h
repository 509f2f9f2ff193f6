// Time as an argument: whoever waits or measures takes a Clock; only clock.cc asks the system.
#ifndef GRADWIRE_BASE_CLOCK_H_
#define GRADWIRE_BASE_CLOCK_H_

#include <atomic>
#include <cstdint>

namespace gradwire {

inline constexpr int64_t kNsPerUs = 1'000;
inline constexpr int64_t kNsPerMs = 1'000'000;
inline constexpr int64_t kNsPerSecond = 1'000'000'000;

// A monotonic clock. Any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;

  // Nanoseconds since an origin of the clock's own; never decreases.
  virtual int64_t NowNs() const = 0;

 protected:
  Clock() = default;
};

// The machine's monotonic clock (CLOCK_MONOTONIC: one origin for all processes of the machine,
// stands still while it is suspended). Lives until the process ends.
const Clock& SteadyClock();

// A clock that moves only when told to: for tests and simulations.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(int64_t now_ns = 0) : now_ns_(now_ns) {}

  int64_t NowNs() const override { return now_ns_.load(std::memory_order_acquire); }

  // `ns` >= 0.
  void Advance(int64_t ns) { now_ns_.fetch_add(ns, std::memory_order_acq_rel); }

  // Moves to `now_ns`, not before the present.
  void Set(int64_t now_ns) { now_ns_.store(now_ns, std::memory_order_release); }

 private:
  std::atomic<int64_t> now_ns_;
};

// The instant until which a wait may last. A value; belongs to the clock it was made with.
struct Deadline {
  int64_t at_ns;

  static constexpr Deadline Never() { return {INT64_MAX}; }

  // `ns` from now; at or below 0 it has expired already. Saturates to Never.
  static Deadline After(const Clock& clock, int64_t ns);

  constexpr bool never() const { return at_ns == INT64_MAX; }
  bool Expired(const Clock& clock) const { return !never() && clock.NowNs() >= at_ns; }

  // What is left, 0 once expired, INT64_MAX for Never.
  int64_t RemainingNs(const Clock& clock) const;

  // What is left as poll and epoll_wait want it: whole milliseconds rounded up (so that a wait does
  // not end just before the deadline and spin), -1 for Never, at most INT_MAX.
  int PollTimeoutMs(const Clock& clock) const;

  friend constexpr auto operator<=>(const Deadline&, const Deadline&) = default;
};

constexpr Deadline Earlier(Deadline a, Deadline b) { return a < b ? a : b; }

}  // namespace gradwire

#endif  // GRADWIRE_BASE_CLOCK_H_
