#include "cli/train/computation.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <ctime>

#include "cli/measure/thread_clock.h"

namespace gradwire {
namespace {

// About 10 us of work: the grain of the time computed.
constexpr size_t kChunkElems = 16 << 10;

class DeviceComputation final : public Computation {
 public:
  void Begin() override { begin_ns_ = SteadyClock().NowNs(); }

  void AdvanceTo(int64_t ns, const ComputeMemory&) override {
    const int64_t end_ns = begin_ns_ + ns;
    const timespec end = {.tv_sec = end_ns / kNsPerSecond, .tv_nsec = end_ns % kNsPerSecond};
    // Absolute: what one wait is late does not add to the next.
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, nullptr) == EINTR) {
    }
  }

 private:
  int64_t begin_ns_ = 0;
};

class HostComputation final : public Computation {
 public:
  void Begin() override { done_ns_ = 0; }

  void AdvanceTo(int64_t ns, const ComputeMemory& memory) override {
    int64_t last_ns = ThreadClock().NowNs();
    for (size_t first = 0; done_ns_ < ns;) {
      first = Touch(memory, first);
      const int64_t now_ns = ThreadClock().NowNs();
      done_ns_ += now_ns - last_ns;
      last_ns = now_ns;
    }
  }

 private:
  // Works on one chunk from element `first`; returns where the next begins.
  static size_t Touch(const ComputeMemory& memory, size_t first) {
    const size_t end = std::min(first + kChunkElems, memory.in.size());
    for (size_t i = first; i < end; ++i) memory.out[i] = 0.5f * memory.out[i] + memory.in[i];
    return end == memory.in.size() ? 0 : end;
  }

  int64_t done_ns_ = 0;
};

}  // namespace

std::unique_ptr<Computation> MakeComputation(ComputeKind kind) {
  switch (kind) {
    case ComputeKind::kDevice: return std::make_unique<DeviceComputation>();
    case ComputeKind::kHost: return std::make_unique<HostComputation>();
  }
  return nullptr;
}

}  // namespace gradwire
