#include "cli/info/build_facts.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "cli/info/transport_trial.h"
#include "transports/transport.h"

namespace gradwire {

std::string CudaVersionText(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::vector<TransportFact> ProbeTransports(const Settings& settings) {
  // A job number that no communicator draws: they are random.
  constexpr uint64_t kProbeJob = 1;
  const TransportOptions options = {
      .job = kProbeJob,
      .interface = settings.Text("interface"),
      .fragment_bytes = static_cast<int32_t>(settings.Bytes("fragment_bytes")),
      .death_timeout_ns = settings.DurationNs("heartbeat_timeout_ms")};
  std::vector<TransportFact> facts;
  for (const TransportRow& row : Transports()) {
    facts.push_back({row.name, row.doc, TryTransport(row, options, SteadyClock())});
  }
  return facts;
}

}  // namespace gradwire
