// Whether a transport carries anything from one rank to another here, by having it do so.
#ifndef GRADWIRE_CLI_INFO_TRANSPORT_TRIAL_H_
#define GRADWIRE_CLI_INFO_TRANSPORT_TRIAL_H_

#include "base/clock.h"
#include "base/status.h"
#include "transports/transport.h"

namespace gradwire {

// Makes two ends in this process as a job on this machine makes them, connects them, and sends one
// fragment. `options`: what does not depend on the rank; rank, world_size and all_ranks_on_host are
// set here. The transport's own error, or gwTransportUnavailable where nothing comes through within
// two seconds.
Status TryTransport(const TransportRow& row, TransportOptions options, const Clock& clock);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_INFO_TRANSPORT_TRIAL_H_
