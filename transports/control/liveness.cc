#include "transports/control/liveness.h"

#include <algorithm>

namespace gradwire {

Liveness::Liveness(const LivenessOptions& options, const std::vector<int>& peers, int64_t now_ns)
    : options_(options), pause_(options.bound_ns / 2, now_ns), next_heartbeat_ns_(now_ns) {
  for (const int rank : peers) peers_.push_back({rank, now_ns});
}

void Liveness::Heard(int peer, int64_t now_ns) {
  for (Peer& p : peers_) {
    if (p.rank == peer) p.heard_ns = std::max(p.heard_ns, now_ns);
  }
}

void Liveness::Forget(int peer) {
  std::erase_if(peers_, [&](const Peer& p) { return p.rank == peer; });
}

Liveness::Tick Liveness::Advance(int64_t now_ns) {
  Tick tick;
  const bool stood_still = pause_.HasPaused(now_ns);
  for (Peer& p : peers_) {
    if (stood_still) p.heard_ns = now_ns;
    const int64_t silent_ns = now_ns - p.heard_ns;
    if (silent_ns >= options_.bound_ns) tick.silent.push_back({p.rank, silent_ns});
  }
  for (const Silent& s : tick.silent) Forget(s.peer);
  if (now_ns >= next_heartbeat_ns_) {
    tick.heartbeat_due = true;
    next_heartbeat_ns_ = now_ns + options_.period_ns;
  }
  return tick;
}

int64_t Liveness::NextNs() const {
  // A quarter of the bound, so that a punctual caller never looks as if it had stood still.
  int64_t next = std::min(next_heartbeat_ns_, pause_.looked_ns() + options_.bound_ns / 4);
  for (const Peer& p : peers_) next = std::min(next, p.heard_ns + options_.bound_ns);
  return next;
}

}  // namespace gradwire
