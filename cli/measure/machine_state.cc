#include "cli/measure/machine_state.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/service_thread.h"
#include "runtime/start/usable_cores.h"

namespace gradwire {
namespace {

constexpr int kBatches = 10;
constexpr uint32_t kRoundTrips = 1000;
constexpr double kSlowUs = 0.2;

void PinTo(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

// Counts up: even values are the first thread's turn, odd ones the second's.
struct alignas(64) Line {
  std::atomic<uint32_t> turn{0};
};

// Waits for its turns from `from` on, below `until`, and passes each on.
void TakeTurns(Line* line, uint32_t from, uint32_t until) {
  for (uint32_t next = from; next < until; next += 2) {
    // Yields now and then: with other programs on the cores the partner may not be running.
    for (uint32_t spins = 1; line->turn.load(std::memory_order_acquire) != next; ++spins) {
      if (spins % 4096 == 0) sched_yield();
    }
    line->turn.store(next + 1, std::memory_order_release);
  }
}

// Nothing: a thread cannot be made.
std::optional<double> BatchUs(const Clock& clock, int first, int second) {
  constexpr uint32_t kTurns = 2 * kRoundTrips;
  Line line;
  double us = 0;
  StatusOr<std::thread> partner = StartServiceThread("gw-partner", [&] {
    PinTo(second);
    TakeTurns(&line, 1, kTurns);
  });
  if (!partner.ok()) return std::nullopt;
  StatusOr<std::thread> timer = StartServiceThread("gw-timer", [&] {
    PinTo(first);
    // The partner may only just be starting: the first round trip is not timed.
    TakeTurns(&line, 0, 3);
    const int64_t start_ns = clock.NowNs();
    TakeTurns(&line, 4, kTurns);
    us = 1e-3 * static_cast<double>(clock.NowNs() - start_ns) / (kRoundTrips - 2);
  });
  if (!timer.ok()) TakeTurns(&line, 0, kTurns);  // the partner waits for it
  partner->join();
  if (!timer.ok()) return std::nullopt;
  timer->join();
  return us;
}

}  // namespace

std::optional<double> PingPongUs(const Clock& clock) {
  const std::vector<int> cores = UsableCores();
  if (cores.size() < 2) return std::nullopt;
  double least = 1e9;
  for (int b = 0; b < kBatches; ++b) {
    const std::optional<double> us = BatchUs(clock, cores[0], cores[1]);
    if (!us) return std::nullopt;
    least = std::min(least, *us);
  }
  return least;
}

std::string MachineStateText(std::optional<double> us) {
  if (!us) return "not measured";
  return fmt::format("{:.2f} us ({})", *us, *us < kSlowUs ? "fast" : "slow");
}

}  // namespace gradwire
