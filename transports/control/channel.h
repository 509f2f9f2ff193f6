// The control plane as the runtime sees it: one rank's end of it, over sockets (control_plane.h) or
// in virtual time (sim_control.h).
#ifndef GRADWIRE_TRANSPORTS_CONTROL_CHANNEL_H_
#define GRADWIRE_TRANSPORTS_CONTROL_CHANNEL_H_

#include <cstdint>

#include "base/status.h"
#include "transports/control/message.h"

namespace gradwire {

// Of a loss about which nothing more is known.
inline constexpr char kLostHint[] =
    "Destroy this communicator, then restart the job or make a new one of the ranks that are left";

// Receives what the control plane has, from within Poll only. May call the channel's sending
// functions.
class ControlSink {
 public:
  virtual ~ControlSink() = default;
  // A message for this rank: HEARTBEAT, REVOKE, VOTE, RESULT or BYE. A REVOKE of the epoch comes
  // after the OnRankLost that it causes.
  virtual void OnControl(const ControlMessage& message) = 0;
  // `rank` is gone for good: once per rank, `cause` has it as peer and tells how it was noticed and
  // what to do.
  // All survivors are told the same rank. `rank` may be this rank itself: it was declared lost by
  // the others (it stood still for too long) and must not go on.
  virtual void OnRankLost(int rank, const Status& cause) = 0;
};

// How far this rank is; travels in its heartbeats.
struct ControlProgress {
  uint16_t turn = 0;
  HeartbeatFields counters;
};

// Ranks are those of the start, 0 <= rank < world_size, whatever has been lost since. Threads: as
// the implementation says.
class ControlChannel {
 public:
  virtual ~ControlChannel() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  // Sends to one rank (not this one) or to all others. src, dst, epoch and job are filled in here.
  // Never blocks; per pair of ranks messages stay in order. To a rank that is lost or has left:
  // dropped, but for rank 0, which serves the others until they have left. gwInvalidArgument for a
  // rank that does not exist or a body over the bound, without effect.
  virtual Status SendTo(int to_rank, ControlMessage message) = 0;
  virtual Status Broadcast(ControlMessage message) = 0;

  virtual void SetProgress(const ControlProgress& progress) = 0;
  // Stamped on what is sent from now on; starts at 0.
  virtual void SetEpoch(uint32_t epoch) = 0;

  // Reports what has arrived; never blocks. Returns the number of reports made.
  virtual int Poll(ControlSink* sink) = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_CONTROL_CHANNEL_H_
