#include "cli/info/build_facts.h"

#include <fmt/format.h>

#include "transports/transport.h"

namespace gradwire {

std::string CudaVersionText(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::vector<TransportFact> ProbeTransports() {
  // A job number that no communicator draws: they are random.
  constexpr uint64_t kProbeJob = 1;
  std::vector<TransportFact> facts;
  for (const TransportRow& row : Transports()) {
    StatusOr<std::unique_ptr<Transport>> made = row.make({.world_size = 1, .job = kProbeJob});
    facts.push_back({row.name, row.doc, made.status()});
  }
  return facts;
}

}  // namespace gradwire
