// The transport over UCX active messages: shared memory between the ranks of one host, TCP or
// whatever UCX_TLS names between hosts. Needs libucp.so.0 (1.13 or newer) at run time only.
//
// Which: posix shared memory where options.all_ranks_on_host, else tcp on options.interface (empty:
// every interface that is up, but loopback and bridges). UCX_TLS and UCX_NET_DEVICES win where the
// user set them. All ranks must come to the same choice; Connect says where they did not.
// Nothing is left in /dev/shm, not by a killed process either: UCX unlinks its files at once.
//
// caps().detects_peer_death only for tcp alone (milliseconds after the peer's process has ended; a
// dead host: options.death_timeout_ns). Where UCX notices a death elsewhere it is reported too.
// A peer that has gone gets no frames; whether those before arrived is not known.
#ifndef GRADWIRE_TRANSPORTS_UCX_UCX_TRANSPORT_H_
#define GRADWIRE_TRANSPORTS_UCX_UCX_TRANSPORT_H_

#include <memory>

#include "base/status.h"
#include "transports/transport.h"

namespace gradwire {

// Fragments given to OnFragment are aligned to 8 bytes, nearly always to 64. A source is read when
// UCX has room for it and never after its OnSent; the loss of a peer frees its sources at once,
// Cancel those that UCX has not begun to read. The destructor delivers what was accepted, for at
// most a second or two thirds of LimitClosing, and then lets go. gwTransportUnavailable: UCX is
// missing or too old, or offers no way to another process. gwInvalidArgument: rank, world_size (at
// most 65535) or fragment_bytes (a multiple of 64, at most 65280) is out of range.
StatusOr<std::unique_ptr<Transport>> MakeUcxTransport(const TransportOptions& options);

// Whether there is a UCX on this machine, also one that cannot be used.
bool UcxIsInstalled();

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_UCX_UCX_TRANSPORT_H_
