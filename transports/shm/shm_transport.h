// Shared memory between the processes of one host, with nothing but the system: each rank has an
// inbox with a queue of slots from every peer; a sender copies a fragment into a slot, the receiver
// consumes it there.
#ifndef GRADWIRE_TRANSPORTS_SHM_SHM_TRANSPORT_H_
#define GRADWIRE_TRANSPORTS_SHM_SHM_TRANSPORT_H_

#include <memory>

#include "base/status.h"
#include "transports/transport.h"

namespace gradwire {

// For the registry. gwTransportUnavailable: ranks on several hosts, or processes here cannot share
// memory.
StatusOr<std::unique_ptr<Transport>> MakeShmTransport(const TransportOptions& options);

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_SHM_SHM_TRANSPORT_H_
