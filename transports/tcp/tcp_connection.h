// A connection between two ranks as the system sees it: its options, its state, why it ends.
#ifndef GRADWIRE_TRANSPORTS_TCP_TCP_CONNECTION_H_
#define GRADWIRE_TRANSPORTS_TCP_TCP_CONNECTION_H_

#include <cstdint>
#include <string>

#include "base/status.h"

namespace gradwire {

// Sets its options. One that is not granted costs time, not correctness.
void PrepareConnection(int fd, int64_t death_timeout_ns);

// How long it has stood; of one on which nothing comes.
int64_t StandingMs(int fd);
// Nobody has answered yet.
bool IsCalling(int fd);

// Why it has ended. `error` is errno, here and below; 0: the peer closed it.
std::string WhyEnded(int error);
// What this process lacks is no word about the peer: gwSystemError, else gwPeerLost.
gwResult_t CodeOfErrno(int error);
// The network's doing rather than the peer's. A call that is refused is not: most often the peer
// has ended.
bool IsOfTheNetwork(int error);

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_TCP_TCP_CONNECTION_H_
