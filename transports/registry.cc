// The transports of this build, in order of preference. A new one adds its include, its row, and
// its line in BUILD.
#include <fmt/format.h>

#include <array>
#include <string_view>
#include <vector>

#include "base/nearest_name.h"
#include "transports/loopback/loopback_transport.h"
#include "transports/transport.h"

namespace gradwire {

std::span<const TransportRow> Transports() {
  static const std::array kRows = {
      TransportRow{"loopback", "threads of one process", &MakeLoopbackTransport},
  };
  return kRows;
}

StatusOr<const TransportRow*> FindTransport(const std::string& name) {
  std::vector<std::string_view> known;
  for (const TransportRow& row : Transports()) {
    if (row.name == name) return &row;
    known.push_back(row.name);
  }
  return Status(gwInvalidArgument, fmt::format("no transport is called '{}'", name),
                fmt::format("did you mean {}? This build has {}", NearestName(name, known),
                            fmt::join(known, ", ")));
}

}  // namespace gradwire
