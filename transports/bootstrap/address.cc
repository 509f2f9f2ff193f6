#include "transports/bootstrap/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace gradwire {
namespace {

constexpr int kBacklog = 4096;

std::vector<InterfaceRow> Interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::vector<InterfaceRow> rows;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
      if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != family) continue;
      constexpr unsigned kUp = IFF_UP | IFF_RUNNING;
      rows.push_back({i->ifa_name, SocketAddress(i->ifa_addr, 0), (i->ifa_flags & kUp) == kUp});
    }
  }
  return rows;
}

SocketAddress Loopback(int port) {
  sockaddr_in loopback = {};
  loopback.sin_family = AF_INET;
  loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return SocketAddress(reinterpret_cast<const sockaddr*>(&loopback), port);
}

SocketAddress WithPort(const SocketAddress& address, int port) {
  return SocketAddress(address.get(), port);
}

// The local address that a packet there would leave from.
std::optional<SocketAddress> RouteAddress(const SocketAddress& there) {
  const UniqueFd fd(socket(there.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return std::nullopt;
  // Connecting a datagram socket only looks up the route.
  if (connect(fd.get(), there.get(), there.bytes()) != 0) return std::nullopt;
  StatusOr<SocketAddress> local = BoundAddress(fd.get());
  if (!local.ok() || local->IsAny()) return std::nullopt;
  return *local;
}

uint32_t V4Of(const sockaddr_storage& s) {
  return ntohl(reinterpret_cast<const sockaddr_in*>(&s)->sin_addr.s_addr);
}

const in6_addr& V6Of(const sockaddr_storage& s) {
  return reinterpret_cast<const sockaddr_in6*>(&s)->sin6_addr;
}

// Of this link alone, where no router leads.
bool IsLinkLocal(const SocketAddress& address) {
  sockaddr_storage s = {};
  std::memcpy(&s, address.get(), address.bytes());
  return address.family() == AF_INET6 ? IN6_IS_ADDR_LINKLOCAL(&V6Of(s))
                                      : V4Of(s) >> 16 == (169U << 8 | 254U);
}

Status ListenError(const SocketAddress& address, int error) {
  if (error == EADDRINUSE) {
    return Status(gwSystemError,
                  fmt::format("port {} of {} is taken by another process", address.port(),
                              address.ToString()),
                  "Choose another with GRADWIRE_PORT or GRADWIRE_ROOT");
  }
  if (error == EADDRNOTAVAIL) {
    return Status(gwSystemError,
                  fmt::format("{} is not an address of this host", address.ToString()),
                  "Rank 0 must run on the host that the root address names");
  }
  return ErrnoStatus("listen on " + address.ToString(), error);
}

}  // namespace

StatusOr<int> ParsePort(const std::string& text) {
  int port = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, port);
  if (error != std::errc() || stop != end || port < 1 || port > 65535) {
    return Status(gwInvalidArgument, fmt::format("'{}' is not a port (1 to 65535)", text));
  }
  return port;
}

StatusOr<HostPort> ParseHostPort(const std::string& text) {
  const size_t colon = text.rfind(':');
  const Status wrong(gwInvalidArgument, fmt::format("'{}' is not host:port", text),
                     "Examples: node1:29600, 10.0.0.1:29600, [fe80::1%eth0]:29600");
  if (colon == std::string::npos || colon == 0) return wrong;
  const StatusOr<int> port = ParsePort(text.substr(colon + 1));
  if (!port.ok()) return port.status();
  std::string host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (!bracketed && host.find_first_of(":[]") != std::string::npos) return wrong;
  return HostPort{std::move(host), *port};
}

SocketAddress::SocketAddress(const sockaddr* address, int port) {
  const auto net_port = htons(static_cast<uint16_t>(port));
  if (address->sa_family == AF_INET6) {
    std::memcpy(&storage_, address, sizeof(sockaddr_in6));
    reinterpret_cast<sockaddr_in6*>(&storage_)->sin6_port = net_port;
  } else {
    std::memcpy(&storage_, address, sizeof(sockaddr_in));
    reinterpret_cast<sockaddr_in*>(&storage_)->sin_port = net_port;
  }
}

socklen_t SocketAddress::bytes() const {
  return family() == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

int SocketAddress::port() const {
  // Both families have it at the same place.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port);
}

bool SocketAddress::IsLoopback() const {
  if (family() == AF_INET) return V4Of(storage_) >> 24 == 127;
  if (family() != AF_INET6) return false;
  const in6_addr& v6 = V6Of(storage_);
  const bool mapped = IN6_IS_ADDR_V4MAPPED(&v6);
  return std::memcmp(&v6, &in6addr_loopback, sizeof(v6)) == 0 || (mapped && v6.s6_addr[12] == 127);
}

bool SocketAddress::IsAny() const {
  if (family() == AF_INET) return V4Of(storage_) == INADDR_ANY;
  if (family() != AF_INET6) return true;
  return std::memcmp(&V6Of(storage_), &in6addr_any, sizeof(in6_addr)) == 0;
}

std::string SocketAddress::ToString() const {
  char text[NI_MAXHOST] = "?";
  (void)getnameinfo(get(), bytes(), text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  if (family() == AF_INET6) return fmt::format("[{}]:{}", text, port());
  return fmt::format("{}:{}", text, port());
}

StatusOr<SocketAddress> ResolveHost(const HostPort& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.host.c_str(), nullptr, &hints, &found);
  // What it means does not depend on there being an /etc/hosts (RFC 6761, section 6.3).
  if (error != 0 && host.host == "localhost") return Loopback(host.port);
  if (error != 0) {
    return Status(gwSystemError,
                  fmt::format("cannot resolve '{}': {}", host.host, gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
      if (a->ai_family == family) return SocketAddress(a->ai_addr, host.port);
    }
  }
  return Status(gwSystemError, fmt::format("'{}' has no IP address", host.host));
}

StatusOr<SocketAddress> ResolveRoot(const HostPort& root) {
  StatusOr<SocketAddress> found = ResolveHost(root);
  if (!found.ok() || !found->IsLoopback() || root.host == "localhost") return found;
  addrinfo hints = {};
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* numeric = nullptr;
  if (getaddrinfo(root.host.c_str(), nullptr, &hints, &numeric) == 0) {
    freeaddrinfo(numeric);
    return found;
  }
  return DefaultAddress(root.port);
}

StatusOr<SocketAddress> InterfaceAddress(const std::string& interface, int port) {
  std::set<std::string> names;
  for (const InterfaceRow& row : Interfaces()) {
    if (row.name == interface) return WithPort(row.address, port);
    names.insert(row.name);
  }
  return Status(gwInvalidArgument,
                fmt::format("no interface '{}' with an IP address; there are: {}", interface,
                            fmt::join(names, ", ")))
      .WithSetting("interface");
}

SocketAddress MostReachable(std::optional<SocketAddress> v4_route,
                            const std::vector<InterfaceRow>& rows,
                            std::optional<SocketAddress> v6_route) {
  std::vector<SocketAddress> found;
  const auto add_route = [&](const std::optional<SocketAddress>& route) {
    if (route && !IsLinkLocal(*route)) found.push_back(*route);
  };
  const auto add_rows = [&](int family, bool link_local) {
    for (const InterfaceRow& row : rows) {
      const bool leads_out = row.up && !row.address.IsLoopback() && CarriesRanks(row.name);
      if (leads_out && row.address.family() == family && IsLinkLocal(row.address) == link_local)
        found.push_back(row.address);
    }
  };
  add_route(v4_route);
  add_rows(AF_INET, false);
  add_route(v6_route);
  add_rows(AF_INET6, false);
  for (const int family : {AF_INET, AF_INET6}) add_rows(family, true);
  return found.empty() ? Loopback(0) : found.front();
}

// To addresses in the documentation networks (RFC 5737, 3849) the default routes lead.
SocketAddress DefaultAddress(int port) {
  const auto route_to = [](const char* far_away) {
    const StatusOr<SocketAddress> there = ResolveHost({far_away, 9});
    return there.ok() ? RouteAddress(*there) : std::nullopt;
  };
  return WithPort(MostReachable(route_to("192.0.2.1"), Interfaces(), route_to("2001:db8::1")),
                  port);
}

SocketAddress AddressToward(const SocketAddress& peer, int port) {
  const std::optional<SocketAddress> route = RouteAddress(peer);
  // What a link-local address of IPv6 means depends on the names of the other host's interfaces.
  const bool is_told_alike = route && (route->family() == AF_INET || !IsLinkLocal(*route));
  return is_told_alike ? WithPort(*route, port) : DefaultAddress(port);
}

// All ranks reach rank 0; other networks of a host may lead nowhere.
StatusOr<SocketAddress> OwnAddress(const std::string& interface, const std::string& root,
                                   int port) {
  if (!interface.empty()) return InterfaceAddress(interface, port);
  if (root.empty()) return DefaultAddress(port);
  const StatusOr<HostPort> place = ParseHostPort(root);
  if (!place.ok()) return place.status();
  const StatusOr<SocketAddress> address = ResolveHost(*place);
  return address.ok() ? AddressToward(*address, port) : address;
}

bool CarriesRanks(const std::string& interface) {
  // Docker's own networks are br- and a number of twelve hexadecimal digits.
  constexpr size_t kDockerNumber = 12;
  constexpr std::string_view kDocker = "br-";
  const bool is_dockers =
      interface.starts_with(kDocker) && interface.size() == kDocker.size() + kDockerNumber &&
      interface.find_first_not_of("0123456789abcdef", kDocker.size()) == interface.npos;
  constexpr const char* kBridges[] = {"docker", "virbr", "cni", "podman", "lxcbr", "lxdbr"};
  return !is_dockers && std::none_of(std::begin(kBridges), std::end(kBridges),
                                     [&](const char* b) { return interface.starts_with(b); });
}

StatusOr<UniqueFd> Listen(const SocketAddress& address) {
  if (address.IsAny()) {
    return Status(gwInvalidArgument,
                  fmt::format("{} would listen on every interface", address.ToString()),
                  "Name one address, or an interface with GRADWIRE_INTERFACE");
  }
  UniqueFd fd(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return ErrnoStatus("socket", errno);
  const int on = 1;
  // A restarted job takes its port again although the last one's connections linger.
  if (setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      bind(fd.get(), address.get(), address.bytes()) != 0 || listen(fd.get(), kBacklog) != 0) {
    return ListenError(address, errno);
  }
  return fd;
}

StatusOr<SocketAddress> BoundAddress(int fd) {
  sockaddr_storage storage = {};
  socklen_t bytes = sizeof(storage);
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if (getsockname(fd, address, &bytes) != 0) return ErrnoStatus("getsockname", errno);
  return SocketAddress(address, ntohs(reinterpret_cast<sockaddr_in*>(&storage)->sin_port));
}

}  // namespace gradwire
