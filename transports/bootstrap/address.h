// Addresses of the start: parsing, names, interfaces, listening on exactly one address.
#ifndef GRADWIRE_TRANSPORTS_BOOTSTRAP_ADDRESS_H_
#define GRADWIRE_TRANSPORTS_BOOTSTRAP_ADDRESS_H_

#include <sys/socket.h>

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace gradwire {

struct HostPort {
  std::string host;
  int port = 0;
  friend bool operator==(const HostPort&, const HostPort&) = default;
};

// "host:port", "1.2.3.4:port" or "[v6]:port"; port 1..65535. gwInvalidArgument says what is wrong.
StatusOr<HostPort> ParseHostPort(const std::string& text);
// A decimal port, 1..65535.
StatusOr<int> ParsePort(const std::string& text);

// An IPv4 or IPv6 address with its port. A value.
class SocketAddress {
 public:
  SocketAddress() = default;
  SocketAddress(const sockaddr* address, int port);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t bytes() const;
  int family() const { return storage_.ss_family; }
  int port() const;
  bool IsLoopback() const;
  bool IsAny() const;            // 0.0.0.0, ::
  std::string ToString() const;  // "127.0.0.1:4000", "[::1]:4000"

 private:
  sockaddr_storage storage_ = {};
};

// A numeric address or a name. Asks the resolver and may block as long as that does; IPv4 is
// preferred.
StatusOr<SocketAddress> ResolveHost(const HostPort& host);

// The address of rank 0 as every rank finds it. Like ResolveHost, but where a host's own name
// resolves to loopback (Debian puts 127.0.1.1 into /etc/hosts), which other hosts cannot reach, it
// is DefaultAddress. "localhost" and numeric addresses stay what they are.
StatusOr<SocketAddress> ResolveRoot(const HostPort& root);

// The first address (IPv4 preferred) of an interface. An error lists the interfaces there are.
StatusOr<SocketAddress> InterfaceAddress(const std::string& interface, int port);

// An address of an interface.
struct InterfaceRow {
  std::string name;
  SocketAddress address;
  bool up = false;
};

// Of a host's addresses the one that others most likely reach it by: of IPv4 before IPv6 that of
// the default route, if there is one, else of the first interface that is up and CarriesRanks; then
// those that no router knows (169.254.0.0/16, fe80::); then loopback.
SocketAddress MostReachable(std::optional<SocketAddress> v4_route,
                            const std::vector<InterfaceRow>& rows,
                            std::optional<SocketAddress> v6_route);

// That of this host. Sends nothing.
SocketAddress DefaultAddress(int port);

// The one that this host reaches `peer` from, and so is reached by from there: loopback where
// `peer` is. DefaultAddress where no way leads to it, or none beyond the next switch. Sends
// nothing.
SocketAddress AddressToward(const SocketAddress& peer, int port);

// The address on which a rank listens for others: of `interface`; empty: AddressToward `root`,
// where rank 0 is met, as 10.0.0.1:29600; empty too: DefaultAddress. gwInvalidArgument: no such
// interface, or a root that has no port. gwSystemError: one that cannot be resolved.
StatusOr<SocketAddress> OwnAddress(const std::string& interface, const std::string& root, int port);

// False: a bridge of containers or virtual machines, which connects no two hosts' ranks.
bool CarriesRanks(const std::string& interface);

// Listens on exactly this address. Port 0: the system chooses; ask BoundAddress. Refuses 0.0.0.0
// and ::.
StatusOr<UniqueFd> Listen(const SocketAddress& address);
StatusOr<SocketAddress> BoundAddress(int fd);

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_BOOTSTRAP_ADDRESS_H_
