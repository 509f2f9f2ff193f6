// Executor: the dependency core of one run. No clock, no I/O, no allocation after construction; a
// driver asks it what is ready and tells it what is complete.
#ifndef GRADWIRE_COLLECTIVES_EXECUTOR_H_
#define GRADWIRE_COLLECTIVES_EXECUTOR_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "collectives/schedule.h"

namespace gradwire {

struct Command {
  enum class Kind : uint8_t { kSend, kCompute, kExpect };
  Kind kind;
  int32_t step;
};

// What one rank still owes or awaits at one peer, for error texts and the recorder.
struct PeerProgress {
  int peer = -1;
  int sends_done = 0, sends = 0;
  int recvs_done = 0, recvs = 0;
  int32_t next_message = -1;     // first message not received yet, -1: none
  std::string ToString() const;  // "sent 7 of 8, waits for peer 3 message 5"
};

// A schedule with what every run of it needs, derived once and shared by all runs.
struct PreparedSchedule {
  explicit PreparedSchedule(Schedule s);
  Schedule schedule;
  std::vector<int32_t> dep_counts;        // per step
  std::vector<uint32_t> successor_begin;  // per step + 1, into successors
  std::vector<int32_t> successors;
  std::vector<Command::Kind> kinds;  // per step
  // The step that receives (peer, message), -1: no such message in this schedule. O(log n).
  int32_t FindRecv(int peer, int32_t message) const;
  std::vector<std::pair<uint64_t, int32_t>> recvs;  // sorted by (peer << 32 | message)
};

class Executor {
 public:
  // `prepared` must outlive the executor (schedules are cached by the communicator).
  explicit Executor(const PreparedSchedule* prepared);

  // Starts over, for another run of the same schedule.
  void Reset();

  // Appends the steps that became ready since the last call, ascending. kExpect: the receive's
  // dependencies are met, fragments may be consumed in place. After an error nothing more becomes
  // ready.
  void TakeReady(std::vector<Command>* commands);

  // Each step once, after it was taken. The first error is kept.
  void Complete(int32_t step, const Status& status);

  bool done() const;  // all steps complete, or failed and nothing taken is outstanding
  bool failed() const { return !status_.ok(); }
  const Status& status() const { return status_; }
  PeerProgress progress(int peer) const;
  // The first peer this run waits for, -1: none.
  int AwaitedPeer() const;

 private:
  enum class State : uint8_t { kBlocked, kReady, kTaken, kComplete };
  const PreparedSchedule* prepared_;
  std::vector<int32_t> missing_;
  std::vector<State> state_;
  std::vector<int32_t> ready_;
  int32_t complete_ = 0, outstanding_ = 0;
  Status status_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_EXECUTOR_H_
