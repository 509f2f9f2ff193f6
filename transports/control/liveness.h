// Liveness: who has been silent for too long, and when to send the next heartbeat. No clock, no
// I/O: time is an argument.
#ifndef GRADWIRE_TRANSPORTS_CONTROL_LIVENESS_H_
#define GRADWIRE_TRANSPORTS_CONTROL_LIVENESS_H_

#include <cstdint>
#include <vector>

#include "base/pause_watch.h"

namespace gradwire {

struct LivenessOptions {
  int64_t period_ns = 2'000'000'000;  // between heartbeats
  int64_t bound_ns = 10'000'000'000;  // silence that counts as death; at least twice the period
};

class Liveness {
 public:
  // Watches `peers` from `now_ns` on.
  Liveness(const LivenessOptions& options, const std::vector<int>& peers, int64_t now_ns);

  // From `now_ns` on `peer` is watched too.
  void Watch(int peer, int64_t now_ns) { peers_.push_back({peer, now_ns}); }
  // Anything at all came from `peer`.
  void Heard(int peer, int64_t now_ns);
  // `peer` is lost or has left: not watched any more.
  void Forget(int peer);

  struct Silent {
    int peer;
    int64_t silent_ns;
  };
  struct Tick {
    bool heartbeat_due = false;
    std::vector<Silent> silent;  // over the bound; forgotten from here on
  };
  // Call it after everything that has arrived was reported to Heard, and no later than NextNs.
  // Where that was missed by half the bound this process itself stood still (stopped, or its
  // machine asleep): the peers were not listened to, so their silence starts anew.
  Tick Advance(int64_t now_ns);

  // When Advance is to be called next.
  int64_t NextNs() const;

 private:
  struct Peer {
    int rank;
    int64_t heard_ns;
  };
  LivenessOptions options_;
  std::vector<Peer> peers_;
  PauseWatch pause_;
  int64_t next_heartbeat_ns_;
};

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_CONTROL_LIVENESS_H_
