#include "cli/measure/machine_state.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "base/service_thread.h"
#include "cli/launch/processors.h"
#include "runtime/start/usable_cores.h"

namespace gradwire {
namespace {

constexpr int kBatches = 10;
constexpr uint32_t kRoundTrips = 1000;
constexpr double kSlowUs = 0.2;

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
    (void)KeepTo({&second, 1});
    TakeTurns(&line, 1, kTurns);
  });
  if (!partner.ok()) return std::nullopt;
  StatusOr<std::thread> timer = StartServiceThread("gw-timer", [&] {
    (void)KeepTo({&first, 1});
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

// One of ours and, of a rank, one that others may have. Nothing: there is no second one.
std::optional<std::pair<int, int>> TwoCores(bool is_rank) {
  const std::vector<int> ours = UsableCores();
  if (ours.empty()) return std::nullopt;
  const std::vector<int> allowed = is_rank ? AllowedCores() : ours;
  const auto other = std::ranges::find_if_not(
      allowed, [&](int core) { return std::ranges::binary_search(ours, core); });
  if (other != allowed.end()) return std::pair(ours[0], *other);
  if (ours.size() < 2) return std::nullopt;
  return std::pair(ours[0], ours[1]);
}

}  // namespace

std::optional<double> PingPongUs(const Clock& clock, bool is_rank) {
  const auto cores = TwoCores(is_rank);
  if (!cores) return std::nullopt;
  double least = 1e9;
  for (int b = 0; b < kBatches; ++b) {
    const std::optional<double> us = BatchUs(clock, cores->first, cores->second);
    if (!us) return std::nullopt;
    least = std::min(least, *us);
  }
  return least;
}

bool IsSlow(double us) { return us >= kSlowUs; }

std::string MachineStateText(std::optional<double> us) {
  if (!us) return "not measured";
  return fmt::format("{:.2f} us ({})", *us, IsSlow(*us) ? "slow" : "fast");
}

}  // namespace gradwire
