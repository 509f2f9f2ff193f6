// UniqueId: 128 bytes with all that a rank needs to join: rank 0's address, the job and its secret.
// Whoever has it may join; ship it by a channel you trust.
#ifndef GRADWIRE_TRANSPORTS_BOOTSTRAP_UNIQUE_ID_H_
#define GRADWIRE_TRANSPORTS_BOOTSTRAP_UNIQUE_ID_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "transports/bootstrap/address.h"
#include "transports/bootstrap/handshake.h"

namespace gradwire {

inline constexpr int kUniqueIdBytes = 128;
using UniqueId = std::array<std::byte, kUniqueIdBytes>;

struct UniqueIdContents {
  HostPort root;  // numeric
  uint64_t job = 0;
  std::string secret;  // 32 bytes
};

struct UniqueIdOptions {
  std::string host;       // numeric address or name of this host to listen on; empty: OwnAddress
  std::string interface;  // of the interface
  std::string root;       // or toward where this process and those that will join have met
  int port = 0;           // 0: the system chooses
  Entropy entropy = SystemEntropy;
};

// Draws job and secret and opens the listener, which waits in this process for rank 0 of this id.
// No child of fork keeps it: it would go on listening, and nobody answer, when this process is
// gone. One id is for one communicator.
StatusOr<UniqueId> CreateUniqueId(const UniqueIdOptions& options);

// Any 128 bytes give contents or gwInvalidArgument (all zero, cut, not an id).
StatusOr<UniqueIdContents> ParseUniqueId(const UniqueId& id);

// The listener of an id that was created in this process, once; rank 0 calls it. Otherwise
// gwInvalidUsage: rank 0 must be in the process that created the id, and an id is good for one
// communicator.
StatusOr<UniqueFd> ClaimListener(const UniqueIdContents& id);

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_BOOTSTRAP_UNIQUE_ID_H_
