// A bridge between the links of a test network that holds every frame for a while, as a distance
// does. Kernels without `tc netem` have no other delay.
#ifndef GRADWIRE_CLI_NETLAB_DELAYED_BRIDGE_H_
#define GRADWIRE_CLI_NETLAB_DELAYED_BRIDGE_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cli/netlab/net_namespace.h"

namespace gradwire {

using MacAddress = std::array<uint8_t, 6>;

// Of a rank's interface: its number is in the address, so that a bridge has nothing to learn.
MacAddress MacOf(int rank);
std::string MacText(const MacAddress& address);

// The port that a frame for `to` leaves by: -1 for all others, as of a broadcast or an address that
// is no rank's.
int PortFor(const MacAddress& to, int ports);

// A process in the network namespace. It ends with this, and with whoever started it.
class DelayedBridge {
 public:
  // `ports`: interfaces of the namespace, by rank; what comes in by one goes out by another
  // `delay_ns` later. Without frames it sleeps. gwSystemError: it may not open them (root is
  // needed).
  static StatusOr<DelayedBridge> Start(const NetNamespace& where,
                                       const std::vector<std::string>& ports, int64_t delay_ns);

  DelayedBridge(DelayedBridge&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  DelayedBridge& operator=(DelayedBridge&& other) noexcept {
    std::swap(pid_, other.pid_);
    return *this;
  }
  ~DelayedBridge();

 private:
  explicit DelayedBridge(pid_t pid) : pid_(pid) {}

  pid_t pid_;
};

}  // namespace gradwire

#endif  // GRADWIRE_CLI_NETLAB_DELAYED_BRIDGE_H_
