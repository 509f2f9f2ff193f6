// The transports of this build, in order of preference. A new one adds its include, its row, and
// its line in BUILD.
#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/nearest_name.h"
#include "transports/faulty/fault_plan.h"
#include "transports/faulty/faulty_transport.h"
#include "transports/loopback/loopback_transport.h"
#include "transports/shm/shm_transport.h"
#include "transports/tcp/tcp_transport.h"
#include "transports/transport.h"

#ifdef GRADWIRE_HAVE_UCX
#include "transports/ucx/ucx_transport.h"
#endif

namespace gradwire {

std::span<const TransportRow> Transports() {
  static const std::array kRows = {
      TransportRow{.name = "shm",
                   .doc = "memory that the processes of one host share; needs nothing",
                   .make = &MakeShmTransport,
                   .within_host = true},
#ifdef GRADWIRE_HAVE_UCX
      TransportRow{.name = "ucx",
                   .doc = "shared memory on a host, TCP between hosts; needs libucp.so.0",
                   .make = &MakeUcxTransport,
                   .within_host = true,
                   .between_hosts = true,
                   .installed = &UcxIsInstalled},
#endif
      TransportRow{.name = "tcp",
                   .doc = "TCP, also between hosts; needs nothing but the system",
                   .make = &MakeTcpTransport,
                   .between_hosts = true},
      TransportRow{.name = "loopback",
                   .doc = "threads of one process",
                   .make = &MakeLoopbackTransport,
                   .within_host = true,
                   .between_processes = false},
  };
  return kRows;
}

std::vector<std::string> ProcessTransports() {
  std::vector<std::string> names;
  for (const TransportRow& row : Transports()) {
    if (row.between_processes) names.push_back(row.name);
  }
  return names;
}

StatusOr<const TransportRow*> FindTransport(const std::string& name) {
  std::vector<std::string_view> known;
  for (const TransportRow& row : Transports()) {
    if (row.name == name) return &row;
    known.push_back(row.name);
  }
  return Status(gwInvalidArgument, fmt::format("no transport is called '{}'", name),
                DidYouMean(name, known, fmt::format("This build has {}", fmt::join(known, ", "))));
}

StatusOr<std::unique_ptr<Transport>> MakeTransport(const std::string& spec,
                                                   const TransportOptions& options) {
  if (!IsFaultySpec(spec)) {
    StatusOr<const TransportRow*> row = FindTransport(spec);
    if (!row.ok()) return row.status();
    return (*row)->make(options);
  }
  StatusOr<FaultySpec> faulty = ParseFaultySpec(spec);
  if (!faulty.ok()) return faulty.status();
  StatusOr<std::unique_ptr<Transport>> inner = MakeTransport(faulty->inner, options);
  if (!inner.ok()) return inner;
  FaultPlan plan = faulty->plan;
  plan.seed = Hasher().Add(plan.seed).Add(options.rank).digest();
  return MakeFaulty(std::move(*inner), plan);
}

StatusOr<const TransportRow*> RowOfSpec(const std::string& spec) {
  if (!IsFaultySpec(spec)) return FindTransport(spec);
  StatusOr<FaultySpec> faulty = ParseFaultySpec(spec);
  if (!faulty.ok()) return faulty.status();
  return RowOfSpec(faulty->inner);
}

}  // namespace gradwire
