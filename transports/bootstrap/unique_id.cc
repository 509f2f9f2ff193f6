#include "transports/bootstrap/unique_id.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "base/crc.h"
#include "base/forks.h"

namespace gradwire {
namespace {

constexpr uint32_t kMagic = 0x44495747;  // "GWID"
constexpr uint8_t kVersion = 1;
constexpr int kSecretBytes = 32;

struct WireId {
  uint32_t magic;
  uint8_t version;
  uint8_t family;  // 4 or 6
  uint16_t port;
  uint32_t scope;  // of a link-local IPv6 address
  uint32_t reserved0;
  std::array<uint8_t, 16> address;
  std::array<uint8_t, kSecretBytes> secret;
  uint64_t job;
  std::array<uint8_t, 52> reserved1;
  uint32_t crc;  // of the bytes before
};
static_assert(sizeof(WireId) == kUniqueIdBytes);
constexpr int kCrcBytes = kUniqueIdBytes - 4;

struct Waiting {
  UniqueFd fd;
  pid_t owner;  // a child of fork inherits the entry without the file
};

// Listeners between the creation of an id and the start of its rank 0. The one piece of
// process-wide state: ids cross processes as plain bytes, so there is nothing else to hang it on.
struct WaitingListeners {
  std::mutex mutex;
  std::map<uint64_t, Waiting> by_job;
};
WaitingListeners& Listeners() {
  static auto* listeners = new WaitingListeners;
  return *listeners;
}

StatusOr<SocketAddress> ChooseAddress(const UniqueIdOptions& options) {
  if (!options.host.empty()) return ResolveHost({options.host, options.port});
  return OwnAddress(options.interface, options.root, options.port);
}

void StoreAddress(const SocketAddress& address, WireId* wire) {
  wire->port = static_cast<uint16_t>(address.port());
  if (address.family() == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address.get());
    wire->family = 6;
    wire->scope = v6->sin6_scope_id;
    std::memcpy(wire->address.data(), &v6->sin6_addr, 16);
  } else {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address.get());
    wire->family = 4;
    std::memcpy(wire->address.data(), &v4->sin_addr, 4);
  }
}

std::string AddressText(const WireId& wire) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(wire.family == 6 ? AF_INET6 : AF_INET, wire.address.data(), text, sizeof(text));
  if (wire.scope != 0) return fmt::format("{}%{}", text, wire.scope);
  return text;
}

}  // namespace

StatusOr<UniqueId> CreateUniqueId(const UniqueIdOptions& options) {
  const StatusOr<SocketAddress> wanted = ChooseAddress(options);
  if (!wanted.ok()) return wanted.status();
  StatusOr<UniqueFd> listener = Listen(*wanted);
  if (!listener.ok()) return listener.status();
  KeepFromChildren(listener->get());
  const StatusOr<SocketAddress> bound = BoundAddress(listener->get());
  if (!bound.ok()) return bound.status();

  WireId wire = {.magic = kMagic, .version = kVersion};
  StoreAddress(*bound, &wire);
  GW_RETURN_IF_ERROR(
      options.entropy({reinterpret_cast<std::byte*>(wire.secret.data()), kSecretBytes}));
  GW_RETURN_IF_ERROR(options.entropy({reinterpret_cast<std::byte*>(&wire.job), sizeof(wire.job)}));
  wire.crc = Crc32c(&wire, kCrcBytes);

  WaitingListeners& table = Listeners();
  const std::lock_guard lock(table.mutex);
  table.by_job[wire.job] = {std::move(*listener), getpid()};
  UniqueId id;
  std::memcpy(id.data(), &wire, sizeof(wire));
  return id;
}

StatusOr<UniqueIdContents> ParseUniqueId(const UniqueId& id) {
  WireId wire;
  std::memcpy(&wire, id.data(), sizeof(wire));
  const bool good = wire.magic == kMagic && wire.crc == Crc32c(id.data(), kCrcBytes) &&
                    (wire.family == 4 || wire.family == 6) && wire.port != 0;
  if (!good) {
    return Status(gwInvalidArgument, "these 128 bytes are not a unique id",
                  "Ship all 128 bytes that gwGetUniqueId gave on one rank to all ranks");
  }
  if (wire.version != kVersion) {
    return Status(gwMismatch,
                  ErrorDetail{.message = "the unique id is of another version of gradwire",
                              .field = "unique id version",
                              .expected = fmt::format("{} (this library)", kVersion),
                              .actual = fmt::format("{} (the id)", wire.version)});
  }
  return UniqueIdContents{
      .root = {AddressText(wire), wire.port},
      .job = wire.job,
      .secret = std::string(reinterpret_cast<const char*>(wire.secret.data()), kSecretBytes)};
}

StatusOr<UniqueFd> ClaimListener(const UniqueIdContents& id) {
  WaitingListeners& table = Listeners();
  const std::lock_guard lock(table.mutex);
  const auto it = table.by_job.find(id.job);
  if (it == table.by_job.end() || it->second.owner != getpid()) {
    return Status(gwInvalidUsage, "rank 0 does not hold this unique id's listener",
                  "Rank 0 must be started once per id, in the process that created it");
  }
  UniqueFd fd = std::move(it->second.fd);
  table.by_job.erase(it);
  return fd;
}

}  // namespace gradwire
