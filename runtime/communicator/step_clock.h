// StepClock: how long the steps of a training take, each from its begin to the begin of the next,
// and how much of that the caller waits in the library. Until the first step begins nothing is
// measured. Threads: one at a time.
#ifndef GRADWIRE_RUNTIME_COMMUNICATOR_STEP_CLOCK_H_
#define GRADWIRE_RUNTIME_COMMUNICATOR_STEP_CLOCK_H_

#include <array>
#include <cstdint>
#include <optional>

namespace gradwire {

// Medians, each on its own, so that they need not add up.
struct StepMedians {
  double step_ms = 0;
  double compute_ms = 0;  // the rest of the step
  double exposed_comm_ms = 0;
};

class StepClock {
 public:
  void Begin(int64_t now_ns);
  bool is_running() const { return is_running_; }
  void NoteBlocked(int64_t waited_ns);

  // Steps that have ended.
  int64_t steps() const { return steps_; }
  // Of the last kKept of them; nothing before the first has ended.
  std::optional<StepMedians> Medians() const;

  static constexpr int kKept = 1024;  // 16 KiB; an epoch or so of a small training

 private:
  struct Step {
    int64_t step_ns = 0, blocked_ns = 0;
  };

  bool is_running_ = false;
  int64_t begin_ns_ = 0, blocked_ns_ = 0;  // of the step under way
  std::array<Step, kKept> ended_;          // a ring
  int64_t steps_ = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_COMMUNICATOR_STEP_CLOCK_H_
