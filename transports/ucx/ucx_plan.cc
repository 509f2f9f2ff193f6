#include "transports/ucx/ucx_plan.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/clock.h"
#include "transports/bootstrap/address.h"
#include "transports/ucx/ucx_wire.h"

namespace gradwire {
namespace {

// Shared memory: an element of the queue per fragment, read where it lies; its length has 16 bits,
// and 32 KiB is as fast as the largest. TCP: the largest that fits the receive segment's default of
// 64 KiB.
constexpr int32_t kSharedFragmentBytes = 32 << 10;
constexpr int32_t kTcpFragmentBytes = 63 << 10;
constexpr int32_t kLargestFragmentBytes = 65280;
// Fits the default segment (8256 bytes) of whatever else there is.
constexpr int32_t kOtherFragmentBytes = 7936;

// A rank's receive queue of shared memory has so many elements, and UCX's own messages a segment
// for each. UCX would take 512 of those, and a container's /dev/shm has 64 MB in all.
constexpr int kQueueElements = 64;

constexpr char kSharedDefault[] = "posix,self";
constexpr std::array<std::string_view, 6> kSharedNames = {"posix", "sysv", "sm",
                                                          "shm",   "mm",   "xpmem"};
// Moves data only beside another transport.
constexpr std::array<std::string_view, 4> kCompanions = {"self", "cma", "knem", "loopback"};

template <size_t n>
bool Contains(const std::array<std::string_view, n>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

struct TlsKinds {
  bool shared = false, tcp = false, other = false;
};

TlsKinds Classify(std::string_view tls) {
  TlsKinds kinds;
  if (tls.starts_with('^')) return {.shared = true, .tcp = true, .other = true};
  while (!tls.empty()) {
    const size_t comma = std::min(tls.find(','), tls.size());
    const std::string_view name = tls.substr(0, std::min(tls.find(':'), comma));
    if (Contains(kSharedNames, name)) {
      kinds.shared = true;
    } else if (name == "tcp") {
      kinds.tcp = true;
    } else if (!Contains(kCompanions, name)) {
      kinds.other = true;
    }
    tls.remove_prefix(std::min(comma + 1, tls.size()));
  }
  return kinds;
}

std::string_view Value(std::string_view printed, std::string_view key) {
  for (size_t at = printed.find(key); at != printed.npos; at = printed.find(key, at + 1)) {
    if (at > 0 && printed[at - 1] != '\n') continue;
    const std::string_view rest = printed.substr(at + key.size());
    return rest.substr(0, rest.find('\n'));
  }
  return "all";
}

std::string Milliseconds(int64_t ns) {
  return fmt::format("{}ms", std::max<int64_t>(ns / kNsPerMs, 1));
}

Status PlanDevices(const TransportOptions& options, const UcxUserSettings& user,
                   std::span<const std::string> interfaces, UcxPlan* plan) {
  if (user.net_devices != "all") return Status::Ok();
  std::vector<std::string> devices;
  if (!options.interface.empty()) {
    // "mlx5_0:1" is a device of UCX and no interface of the system.
    const bool known =
        options.interface.find(':') != std::string::npos ||
        std::find(interfaces.begin(), interfaces.end(), options.interface) != interfaces.end();
    if (!known) {
      return Status(gwTransportUnavailable,
                    fmt::format("ucx: there is no network interface '{}' that is up and has an "
                                "address",
                                options.interface),
                    fmt::format("Choose one of {}", fmt::join(interfaces, ", ")))
          .WithSetting("interface");
    }
    devices.push_back(options.interface);
  } else if (!options.all_ranks_on_host) {
    // Loopback looks reachable to UCX when the other host is a network namespace of this one, and
    // bridges of containers it likes.
    for (const std::string& name : interfaces) {
      if (name != "lo" && CarriesRanks(name)) devices.push_back(name);
    }
  }
  if (!devices.empty()) {
    plan->settings.push_back({"NET_DEVICES", fmt::format("{}", fmt::join(devices, ",")), {}});
  }
  return Status::Ok();
}

Status PlanFragments(int32_t asked, TlsKinds kinds, UcxPlan* plan) {
  if (asked < 0 || asked > kLargestFragmentBytes || asked % 64 != 0) {
    return Status(gwInvalidArgument, fmt::format("ucx: fragments of {} bytes", asked),
                  fmt::format("Take a multiple of 64, at most {}", kLargestFragmentBytes))
        .WithSetting("fragment_bytes");
  }
  const int32_t usual = kinds.other    ? kOtherFragmentBytes
                        : kinds.shared ? kSharedFragmentBytes
                                       : kTcpFragmentBytes;
  plan->fragment_bytes = asked > 0 ? asked : usual;
  plan->fragments_in_flight = plan->fabric == UcxFabric::kTcp ? 4 : 8;
  plan->makes_files = kinds.shared;
  plan->needs_files = plan->tls == kSharedDefault;
  // Room for a whole fragment where UCX sends without a request ("short"): see UcxSender.
  if (kinds.shared) {
    const int32_t element = plan->fragment_bytes + kUcxSegmentOverheadBytes;
    plan->settings.push_back({"MM_FIFO_ELEM_SIZE", fmt::format("{}", element), {}});
    plan->settings.push_back({"MM_RX_BUFS_GROW", fmt::format("{}", kQueueElements), {}});
    if (plan->fabric == UcxFabric::kOther) {
      plan->settings.push_back({"MM_SEG_SIZE", fmt::format("{}", std::max(element, 8256)), {}});
    }
    // Else no shared memory where endpoints report dead peers: UCX goes over TCP without a word.
    plan->settings.push_back({"MM_ERROR_HANDLING", "y", {}});
  }
  if (kinds.tcp) {
    plan->settings.push_back({"TCP_TX_SEG_SIZE", fmt::format("{}", 64 << 10), "TX_SEG_SIZE"});
    // Else a silent host holds up a send for minutes, and UCX 1.13 ends the process by an assertion
    // when it finds, while it connects, that the peer has gone.
    plan->settings.push_back({"TCP_CONN_NB", "y", "CONN_NB"});
  }
  return Status::Ok();
}

// UCX 1.13 crashes when it asks after an endpoint of shared memory whose peer went away before it
// was connected, and for TCP connections the kernel tells us. So UCX is made to ask only where the
// caller wants to know of a silent host.
void PlanKeepalive(int64_t death_timeout_ns, UcxPlan* plan) {
  const bool ask = plan->fabric == UcxFabric::kTcp && death_timeout_ns > 0;
  // Silence is noticed one interval after it was looked for.
  plan->settings.push_back(
      {"KEEPALIVE_INTERVAL", ask ? Milliseconds(death_timeout_ns / 2) : "inf", {}});
}

}  // namespace

UcxUserSettings ParseUcxSettings(std::string_view printed) {
  return {.tls = std::string(Value(printed, "UCX_TLS=")),
          .net_devices = std::string(Value(printed, "UCX_NET_DEVICES="))};
}

StatusOr<UcxPlan> PlanUcx(const TransportOptions& options, const UcxUserSettings& user,
                          std::span<const std::string> interfaces) {
  UcxPlan plan;
  const bool users_choice = user.tls != "all";
  plan.tls = users_choice ? user.tls : options.all_ranks_on_host ? kSharedDefault : "tcp,self";
  const TlsKinds kinds = Classify(plan.tls);
  const bool one_host_only = kinds.shared && !kinds.tcp && !kinds.other;
  if (one_host_only && !options.all_ranks_on_host) {
    return Status(
        gwTransportUnavailable,
        fmt::format("ucx: UCX_TLS={} is shared memory, and not all ranks are on this host",
                    plan.tls),
        "Unset UCX_TLS, or add tcp");
  }
  const bool tcp_only = kinds.tcp && !kinds.shared && !kinds.other;
  plan.fabric = one_host_only ? UcxFabric::kShared : tcp_only ? UcxFabric::kTcp : UcxFabric::kOther;
  if (!users_choice) plan.settings.push_back({"TLS", plan.tls, {}});
  // Rendezvous collapses on a shaped link, and its receiver cannot consume in place.
  plan.settings.push_back({"RNDV_THRESH", "inf", {}});
  plan.settings.push_back({"ZCOPY_THRESH", "inf", {}});
  // The newer protocols, UCX's default from 1.16, send only small messages "short": see UcxSender.
  plan.settings.push_back({"PROTO_ENABLE", "n", {}});
  GW_RETURN_IF_ERROR(PlanFragments(options.fragment_bytes, kinds, &plan));
  if (!one_host_only) GW_RETURN_IF_ERROR(PlanDevices(options, user, interfaces, &plan));
  PlanKeepalive(options.death_timeout_ns, &plan);
  return plan;
}

std::vector<std::string> UsableInterfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  std::set<std::string> others, loopbacks;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const bool up = (entry->ifa_flags & IFF_UP) != 0;
    const bool ip = entry->ifa_addr != nullptr && (entry->ifa_addr->sa_family == AF_INET ||
                                                   entry->ifa_addr->sa_family == AF_INET6);
    if (!up || !ip) continue;
    ((entry->ifa_flags & IFF_LOOPBACK) != 0 ? loopbacks : others).insert(entry->ifa_name);
  }
  freeifaddrs(list);
  std::vector<std::string> names(others.begin(), others.end());
  names.insert(names.end(), loopbacks.begin(), loopbacks.end());
  return names;
}

}  // namespace gradwire
