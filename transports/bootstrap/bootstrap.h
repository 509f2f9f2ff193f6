// Bootstrap: how the ranks of a job find each other, prove the job's secret and learn everybody's
// address. Over TCP through rank 0; the connections it makes become the control plane's links.
#ifndef GRADWIRE_TRANSPORTS_BOOTSTRAP_BOOTSTRAP_H_
#define GRADWIRE_TRANSPORTS_BOOTSTRAP_BOOTSTRAP_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "transports/bootstrap/address.h"
#include "transports/bootstrap/handshake.h"
#include "transports/bootstrap/rendezvous_host.h"
#include "transports/bootstrap/roster.h"
#include "transports/control/liveness.h"
#include "transports/control/tcp_links.h"

namespace gradwire {

struct BootstrapOptions {
  int rank = 0;
  int world_size = 1;
  HostPort root;  // rank 0's address; not needed for a world of one or with a listener
  // Rank 0 has listened since before the others knew its address (from a unique id): where nobody
  // does any more, its start has ended.
  bool root_listens = false;
  UniqueFd listener;  // rank 0 only: listens already (from a unique id)
  std::string secret;
  bool insecure = false;  // the user allows an address that is not loopback without a secret
  uint64_t job = 0;       // equal on all ranks of this job, different in others
  std::string blob;       // what the others must know of this rank; opaque, at most 64 KiB
  ChooseSettings choose_settings;               // used on rank 0 only
  UseRoster use_roster;                         // may be empty
  int64_t timeout_ns = 60 * kNsPerSecond;       // for everybody to be there
  int64_t hello_timeout_ns = 5 * kNsPerSecond;  // for a stranger to prove itself
  // Of ranks that have joined. They are silent while use_roster runs: the bound is longer than it.
  LivenessOptions liveness;
  uint32_t library_version = GW_VERSION_CODE;
  Entropy entropy = SystemEntropy;
  const Clock* clock = &SteadyClock();
  const std::atomic<bool>* cancelled = nullptr;  // set from any thread: gives up within 100 ms
  // Of the launcher, for the ranks of its job: none of them waits for one whose process has ended.
  std::string launch_board;  // as LaunchBoard::Open takes it; empty: there is none
};

struct BootstrapResult {
  Roster roster;
  std::vector<StarLink> links;     // rank 0: to every other rank; the others: to rank 0
  int64_t strangers_rejected = 0;  // rank 0 only
};

// Every rank calls it once. Blocks until all have joined; at most timeout_ns on rank 0 and twice
// that elsewhere (a guest waits as long as rank 0 says it does). The listener is closed when it
// returns.
// `use_roster` is called once the roster is there; no rank returns before it has succeeded on all,
// and an error of one is every rank's.
//   gwInvalidArgument  rank, world size, blob or root are impossible; no effect
//   gwInvalidUsage     no secret for an address that is not loopback; rank taken by another process
//   gwUnauthenticated  the secrets differ
//   gwMismatch         field and both values: library version, world size, rank, job
//   gwTimeout          names the ranks that are missing, on all that did join; or rank 0 was not
//                      reached
//   gwPeerLost         a rank died in between, was silent for longer than the bound, or has ended
//                      before it had joined, as the launcher or root_listens tells
//   gwRevoked          cancelled
//   gwSystemError, gwRemoteError  sockets; another program at the port
StatusOr<BootstrapResult> Bootstrap(BootstrapOptions options);

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_BOOTSTRAP_BOOTSTRAP_H_
