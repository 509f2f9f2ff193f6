// SimControl: the control plane of all ranks in one thread and virtual time, for the simulator. The
// same ControlNode runs as over sockets; links have a seeded delay, and ranks die when told to or
// at seeded moments, also in the middle of a broadcast.
#ifndef GRADWIRE_TRANSPORTS_CONTROL_SIM_CONTROL_H_
#define GRADWIRE_TRANSPORTS_CONTROL_SIM_CONTROL_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "transports/control/channel.h"
#include "transports/control/control_node.h"

namespace gradwire {

struct SimControlOptions {
  int world_size = 1;
  uint64_t job = 1;
  LivenessOptions liveness;
  uint64_t seed = 0;
  int64_t min_delay_ns = 10'000;  // of each message, uniform; per link messages stay in order
  int64_t max_delay_ns = 100'000;
  double deaths_per_message =
      0;  // chance that a rank dies with a message it sends (which may go out)
};

// Threads: one. Everything is a function of the options, the clock's readings and the calls.
class SimControl {
 public:
  // `clock` gives virtual time, moved by the caller; it must outlive this.
  SimControl(const SimControlOptions& options, const Clock* clock);
  ~SimControl();

  // Its Poll reports what is due now; a dead or stopped rank's reports nothing. Valid as long as
  // this.
  ControlChannel* channel(int rank);
  // As ControlPlane::GracefulBye and LeaveWith, without waiting.
  void SayBye(int rank, const Status& why);
  bool MayLeave(int rank) const;

  // The process is gone: its links break, which the other ends see after the delay.
  void Kill(int rank);
  // Stands still (SIGSTOP, a machine without power): the links stay and are silent.
  void Stop(int rank);
  void Continue(int rank);
  bool alive(int rank) const;

  // When Poll of the rank, or of some rank, may next have something to do; INT64_MAX if never.
  int64_t NextNs(int rank) const;
  int64_t NextNs() const;

 private:
  struct Delivery {
    int64_t due_ns;
    int from;
    std::string wire;  // empty: the link broke
  };
  class Links;
  class Channel;

  void Deliver(int from, int to, std::string wire);
  bool DrawDeath();
  int64_t DrawDelay();
  uint64_t Draw();

  SimControlOptions options_;
  const Clock* clock_;  // the caller's; outlives us
  uint64_t draws_ = 0;
  std::vector<std::unique_ptr<Channel>> channels_;
};

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_CONTROL_SIM_CONTROL_H_
