#include "cli/netlab/netlab.h"

#include <fmt/format.h>

#include <sstream>
#include <string_view>

#include "base/json_value.h"

namespace gradwire {
namespace {

Status RunScript(const NetNamespace& where, const std::string& tool, const std::string& script,
                 int shared_fd = -1) {
  return where.Run({tool, "-batch", "-"}, script, shared_fd).status();
}

// A qdisc that is there already is changed.
std::string ShapeCommand(const std::string& interface, const Shaping& shaping) {
  return fmt::format("qdisc replace dev {} root tbf rate {}bit burst {} limit {}\n", interface,
                     shaping.rate_bits_per_s, shaping.burst_bytes, shaping.limit_bytes);
}

std::string PortOf(int rank) { return fmt::format("v{}", rank); }

}  // namespace

StatusOr<InterfaceCounters> ParseInterfaceCounters(std::string_view proc_net_dev,
                                                   std::string_view interface) {
  std::istringstream lines{std::string(proc_net_dev)};
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    const size_t name = line.find_first_not_of(' ');
    if (colon == line.npos || line.substr(name, colon - name) != interface) continue;
    std::istringstream numbers(line.substr(colon + 1));
    int64_t column[16] = {};
    for (int64_t& value : column) numbers >> value;
    if (!numbers) break;
    return InterfaceCounters{.rx_bytes = column[0],
                             .rx_packets = column[1],
                             .rx_dropped = column[3],
                             .tx_bytes = column[8],
                             .tx_packets = column[9],
                             .tx_dropped = column[11]};
  }
  return Status(gwSystemError, fmt::format("no counters of interface {}", interface));
}

std::string CountersJson(const std::string& rate, const std::vector<RateChange>& changes,
                         const std::vector<InterfaceCounters>& by_rank) {
  JsonValue ranks = JsonValue::array();
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    const InterfaceCounters& c = by_rank[rank];
    ranks.push_back({{"rank", rank},
                     {"tx_bytes", c.tx_bytes},
                     {"tx_packets", c.tx_packets},
                     {"tx_dropped", c.tx_dropped},
                     {"rx_bytes", c.rx_bytes},
                     {"rx_packets", c.rx_packets},
                     {"rx_dropped", c.rx_dropped}});
  }
  JsonValue rate_changes = JsonValue::array();
  for (const RateChange& c : changes) rate_changes.push_back({{"at_s", c.at_s}, {"rate", c.rate}});
  JsonValue all = {
      {"schema_version", 1}, {"netlab", rate}, {"rate_changes", rate_changes}, {"ranks", ranks}};
  if (rate.empty()) all["netlab"] = nullptr;
  return all.dump(2) + "\n";
}

StatusOr<Netlab> Netlab::Create(int ranks, const Link& link) {
  Netlab lab;
  StatusOr<NetNamespace> bridge = NetNamespace::Create();
  if (!bridge.ok()) return bridge.status();
  GW_RETURN_IF_ERROR(RunScript(*bridge, "ip",
                               "link add br0 type bridge\n"
                               "link set br0 up\n"));
  std::vector<std::string> ports;
  for (int rank = 0; rank < ranks; ++rank) {
    GW_RETURN_IF_ERROR(lab.AddRank(rank, link, *bridge));
    ports.push_back(PortOf(rank));
  }
  if (link.delay_ns > 0) {
    StatusOr<DelayedBridge> started = DelayedBridge::Start(*bridge, ports, link.delay_ns);
    if (!started.ok()) return started.status();
    lab.delayed_ = std::move(*started);
  }
  GW_RETURN_IF_ERROR(lab.ranks_[0].CheckEntry());
  lab.bridge_.push_back(std::move(*bridge));
  return lab;
}

Status Netlab::AddRank(int rank, const Link& link, const NetNamespace& bridge) {
  StatusOr<NetNamespace> mine = NetNamespace::Create();
  if (!mine.ok()) return mine.status();
  const std::string port = PortOf(rank);
  const std::string isolate =
      link.delay_ns > 0 ? fmt::format("link set {} type bridge_slave isolated on\n", port) : "";
  const std::string join = fmt::format(
      "link add {0} type veth peer name {1} address {2} netns /proc/self/fd/{3}\n"
      "link set {0} master br0 up\n"
      "{4}",
      port, kInterface, MacText(MacOf(rank)), mine->fd(), isolate);
  const int64_t least_rate = link.least_rate_bits_per_s;
  const std::string segments =
      least_rate > 0 ? fmt::format("gso_max_size {}", LongestSegmentAt(least_rate)) : "";
  const std::string configure = fmt::format(
      "link set lo up\n"
      "addr add {0}/16 dev {1}\n"
      "link set {1} {2} up\n",
      Address(rank), kInterface, segments);
  const Shaping shaping = ShapingFor(link.rate_bits_per_s);
  GW_RETURN_IF_ERROR(RunScript(bridge, "ip", join, mine->fd()));
  GW_RETURN_IF_ERROR(RunScript(*mine, "ip", configure));
  GW_RETURN_IF_ERROR(RunScript(bridge, "tc", ShapeCommand(port, shaping)));
  GW_RETURN_IF_ERROR(RunScript(*mine, "tc", ShapeCommand(kInterface, shaping)));
  ranks_.push_back(std::move(*mine));
  return Status::Ok();
}

Status Netlab::Reshape(int64_t rate_bits_per_s) const {
  const Shaping shaping = ShapingFor(rate_bits_per_s);
  std::string ports;
  for (int rank = 0; rank < std::ssize(ranks_); ++rank)
    ports += ShapeCommand(PortOf(rank), shaping);
  GW_RETURN_IF_ERROR(RunScript(bridge_[0], "tc", ports));
  for (const NetNamespace& rank : ranks_) {
    GW_RETURN_IF_ERROR(RunScript(rank, "tc", ShapeCommand(kInterface, shaping)));
  }
  return Status::Ok();
}

std::string Netlab::Address(int rank) { return fmt::format("10.77.0.{}", rank + 1); }

StatusOr<InterfaceCounters> Netlab::Counters(int rank) const {
  const StatusOr<std::string> text =
      ranks_[static_cast<size_t>(rank)].Run({"cat", "/proc/self/net/dev"}, "");
  if (!text.ok()) return text.status();
  return ParseInterfaceCounters(*text, kInterface);
}

}  // namespace gradwire
