// The test network: every rank in a network namespace of its own, joined by veth pairs and a
// bridge in a further namespace, each link shaped to one rate in both directions. Nothing of it is
// visible from outside, and it is gone with the processes that use it.
//
//   rank 0: e0 10.77.0.1/16 --- v0 |
//   rank 1: e0 10.77.0.2/16 --- v1 | bridge       tbf on both ends of every pair
//
// Where links have a delay, the bridge passes nothing on: a process of ours does
// (delayed_bridge.h).
#ifndef GRADWIRE_CLI_NETLAB_NETLAB_H_
#define GRADWIRE_CLI_NETLAB_NETLAB_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/netlab/delayed_bridge.h"
#include "cli/netlab/net_namespace.h"
#include "cli/netlab/rate.h"

namespace gradwire {

// Of one rank's interface since it exists.
struct InterfaceCounters {
  int64_t rx_bytes = 0;
  int64_t rx_packets = 0;
  int64_t rx_dropped = 0;
  int64_t tx_bytes = 0;
  int64_t tx_packets = 0;
  int64_t tx_dropped = 0;
};

// The counters of `interface` from the text of /proc/net/dev. gwSystemError: it is not listed.
StatusOr<InterfaceCounters> ParseInterfaceCounters(std::string_view proc_net_dev,
                                                   std::string_view interface);

// All links have had another rate since then.
struct RateChange {
  double at_s = 0;  // by the monotonic clock
  std::string rate;
};

// As documented for `gradwire run --counters`.
std::string CountersJson(const std::string& rate, const std::vector<RateChange>& changes,
                         const std::vector<InterfaceCounters>& by_rank);

class Netlab {
 public:
  static constexpr int kMaxRanks = 250;
  static constexpr char kInterface[] = "e0";

  // gwSystemError: not root, no iproute2, a kernel without veth, bridge or tbf, or a container that
  // forbids to mount; the text says which. Nothing is left behind then. At least one rank.
  static StatusOr<Netlab> Create(int ranks, const Link& link);

  // "10.77.0.1" for rank 0.
  static std::string Address(int rank);

  // Valid as long as this.
  int namespace_fd(int rank) const { return ranks_[static_cast<size_t>(rank)].fd(); }

  // Every link from now on; what is queued is sent at the new rate, delays stay. Create was told
  // how far the rates fall. gwSystemError: some links may have it, others not.
  Status Reshape(int64_t rate_bits_per_s) const;

  // Also after the rank has ended.
  StatusOr<InterfaceCounters> Counters(int rank) const;

 private:
  Netlab() = default;
  Status AddRank(int rank, const Link& link, const NetNamespace& bridge);

  std::vector<NetNamespace> bridge_;  // exactly one
  std::optional<DelayedBridge> delayed_;
  std::vector<NetNamespace> ranks_;
};

}  // namespace gradwire

#endif  // GRADWIRE_CLI_NETLAB_NETLAB_H_
