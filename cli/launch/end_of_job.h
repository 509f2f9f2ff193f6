// When a job ends, and how hard: decides which signal the ranks that are still alive get, and when.
// No processes and no clock of its own.
#ifndef GRADWIRE_CLI_LAUNCH_END_OF_JOB_H_
#define GRADWIRE_CLI_LAUNCH_END_OF_JOB_H_

#include <cstdint>

#include "base/clock.h"

namespace gradwire {

class EndOfJob {
 public:
  // Between SIGTERM and SIGKILL.
  static constexpr int64_t kTermToKillNs = 5 * kNsPerSecond;

  // `clock` outlives this.
  EndOfJob(const Clock& clock, int64_t grace_ns) : clock_(clock), grace_ns_(grace_ns) {}

  // The ranks get the grace, then SIGTERM, then SIGKILL. No effect if the end has begun.
  void Begin();
  // SIGTERM now (unless that is past), SIGKILL later.
  void BeginNow();
  // SIGKILL now.
  void Hurry();

  bool begun() const { return stage_ != Stage::kRunning; }

  // The signal that is due now: SIGTERM or SIGKILL, each once; 0: none.
  int TakeDueSignal();
  // When TakeDueSignal is to be asked again at the latest.
  Deadline next() const { return next_; }

 private:
  enum class Stage : uint8_t { kRunning, kGrace, kTerminating, kKilled };

  const Clock& clock_;
  const int64_t grace_ns_;
  Stage stage_ = Stage::kRunning;
  Deadline next_ = Deadline::Never();
};

}  // namespace gradwire

#endif  // GRADWIRE_CLI_LAUNCH_END_OF_JOB_H_
