// How long a connection between hosts may be in the making.
#ifndef GRADWIRE_TRANSPORTS_CONNECT_BOUND_H_
#define GRADWIRE_TRANSPORTS_CONNECT_BOUND_H_

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace gradwire {

// Shorter bounds would take a pause of a busy machine, or two lost packets, for a death.
inline constexpr int64_t kLeastConnectBoundNs = 5 * kNsPerSecond;

// 0: without end, where the transport is to notice no dead peer (death_timeout_ns is 0).
constexpr int64_t ConnectBoundNs(int64_t death_timeout_ns) {
  return death_timeout_ns > 0 ? std::max(death_timeout_ns, kLeastConnectBoundNs) : 0;
}

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_CONNECT_BOUND_H_
