// The two shells around the rendezvous cores: sockets, poll, retries.
#ifndef GRADWIRE_TRANSPORTS_BOOTSTRAP_BOOTSTRAP_INTERNAL_H_
#define GRADWIRE_TRANSPORTS_BOOTSTRAP_BOOTSTRAP_INTERNAL_H_

#include "transports/bootstrap/bootstrap.h"
#include "transports/bootstrap/vain_wait.h"

namespace gradwire {

// Waits are cut into pieces of this length to ask whether they are in vain.
inline constexpr int64_t kVainCheckNs = 100 * kNsPerMs;

// Without a secret only loopback is allowed, unless the user says otherwise.
Status CheckSecret(const BootstrapOptions& options, const SocketAddress& root);
VainWait MakeVainWait(const BootstrapOptions& options);

StatusOr<BootstrapResult> RunHost(BootstrapOptions options);
StatusOr<BootstrapResult> RunGuest(const BootstrapOptions& options);

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_BOOTSTRAP_BOOTSTRAP_INTERNAL_H_
