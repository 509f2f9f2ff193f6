// Loopback: the ranks are threads of one process. The reference transport: a queue and a memcpy;
// what it does is what Transport promises. docs/adding_a_transport.md walks through it.
#ifndef GRADWIRE_TRANSPORTS_LOOPBACK_LOOPBACK_TRANSPORT_H_
#define GRADWIRE_TRANSPORTS_LOOPBACK_LOOPBACK_TRANSPORT_H_

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "transports/transport.h"

namespace gradwire {

class LoopbackHub;

struct LoopbackShape {
  int world_size = 1;                  // at least 1
  int32_t fragment_bytes = 64 * 1024;  // largest payload; a multiple of 64, 64 to 1 MiB
  int32_t slots = 8;                   // queued per ordered pair of ranks before kFull; at least 1
};

// What the ends of one communicator share. Memory: world_size^2 * slots * fragment_bytes, each
// end's part taken when it connects. Any thread. gwInvalidArgument: a number is out of range.
StatusOr<std::shared_ptr<LoopbackHub>> MakeLoopbackHub(const LoopbackShape& shape);

// The end of `rank`, once per rank; it keeps the hub alive. A rank whose end is destroyed is lost
// to the others: they still receive what it sent. gwInvalidArgument: no such rank; gwInvalidUsage:
// the rank has or had an end.
StatusOr<std::unique_ptr<Transport>> MakeLoopbackEnd(std::shared_ptr<LoopbackHub> hub, int rank);

// The registry's factory: ends of equal (job, world_size) in this process meet in one hub, which
// lives as long as one of them. Errors as above; Connect refuses the address of a rank that is in
// another process or hub.
StatusOr<std::unique_ptr<Transport>> MakeLoopbackTransport(const TransportOptions& options);

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_LOOPBACK_LOOPBACK_TRANSPORT_H_
