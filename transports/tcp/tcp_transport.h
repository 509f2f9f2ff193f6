// The transport over TCP sockets: needs nothing but the system. Works on a host and between hosts.
//
// A rank listens on the address of options.interface, or where none is named on the one that it
// reaches options.root from, which may be loopback, or else on that of the default route. The
// system chooses the port. It connects to a peer when it first sends to it; the peer's frames come
// on a connection of the peer's making. Who connects must know the listener's token, 128 random
// bits that travel in the address, so through the authenticated roster: others are turned away and
// change nothing. Nothing is encrypted (docs/reliability.md, section Security).
//
// A process that ends or is killed is noticed at once; a host or link that falls silent after about
// twice options.death_timeout_ns (at least six seconds) where nothing is under way, and else by the
// control plane's heartbeats. A peer that does not answer a call is lost after ConnectBoundNs.
#ifndef GRADWIRE_TRANSPORTS_TCP_TCP_TRANSPORT_H_
#define GRADWIRE_TRANSPORTS_TCP_TCP_TRANSPORT_H_

#include <memory>

#include "base/clock.h"
#include "base/status.h"
#include "transports/transport.h"

namespace gradwire {

// Fragments given to OnFragment are aligned to 8 bytes. A source is free (OnSent) when the kernel
// has taken it: from then on it arrives without this rank's help, also if the end is destroyed.
// What was accepted only is lost then; the destructor waits for nothing. All that a rank had sent
// is delivered before its loss is reported.
// gwTransportUnavailable: no such interface, or the system grants no socket. gwInvalidArgument:
// rank, world_size (at most 65535) or fragment_bytes (a multiple of 64, at most 1 MiB) is out of
// range.
StatusOr<std::unique_ptr<Transport>> MakeTcpTransport(const TransportOptions& options);
// By a clock that outlives it.
StatusOr<std::unique_ptr<Transport>> MakeTcpTransport(const TransportOptions& options,
                                                      const Clock& clock);

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_TCP_TCP_TRANSPORT_H_
