// The two shells around the rendezvous cores: sockets, poll, retries.
#ifndef GRADWIRE_TRANSPORTS_BOOTSTRAP_BOOTSTRAP_INTERNAL_H_
#define GRADWIRE_TRANSPORTS_BOOTSTRAP_BOOTSTRAP_INTERNAL_H_

#include <optional>

#include "transports/bootstrap/bootstrap.h"
#include "transports/bootstrap/launch_board.h"

namespace gradwire {

// Waits are cut into pieces of this length to ask whether they are in vain.
inline constexpr int64_t kVainCheckNs = 100 * kNsPerMs;

// Without a secret only loopback is allowed, unless the user says otherwise.
Status CheckSecret(const BootstrapOptions& options, const SocketAddress& root);

// Whether a start that goes on waiting waits in vain.
class VainWait {
 public:
  // `options` outlive this.
  explicit VainWait(const BootstrapOptions& options);

  // Asked again and again. gwRevoked: cancelled; gwPeerLost: a rank's process has ended. Of that
  // nothing is said at first: its last words may be under way, and rank 0 has the first word.
  Status Check();

 private:
  const BootstrapOptions& options_;
  std::optional<LaunchBoard> board_;
  Deadline patience_ = Deadline::Never();  // set when the first rank has ended
};

StatusOr<BootstrapResult> RunHost(BootstrapOptions options);
StatusOr<BootstrapResult> RunGuest(const BootstrapOptions& options);

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_BOOTSTRAP_BOOTSTRAP_INTERNAL_H_
