#include "base/failpoint.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/nearest_name.h"

namespace gradwire {
namespace failpoint_internal {

// Of the process and not of a communicator: the process is what dies.
constinit std::atomic<Failpoint> armed{Failpoint::kNone};
constinit std::atomic<int> passes_left{0};

void Hit() {
  if (passes_left.fetch_sub(1) == 1) raise(SIGKILL);
}

}  // namespace failpoint_internal

Status ArmFailpoint(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const auto* const known = std::find(kFailpointNames.begin(), kFailpointNames.end(), name);
  if (known == kFailpointNames.end()) {
    const std::vector<std::string_view> names(kFailpointNames.begin() + 1, kFailpointNames.end());
    return Status(gwInvalidArgument, fmt::format("no failpoint is called '{}'", name),
                  DidYouMean(name, names, fmt::format("There are: {}", fmt::join(names, ", "))));
  }
  int count = 1;
  if (colon != std::string_view::npos) {
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, count);
    if (error != std::errc() || stop != end || count < 1) {
      return Status(gwInvalidArgument,
                    fmt::format("failpoint '{}' has no count of at least 1", text));
    }
  }
  failpoint_internal::passes_left = count;
  failpoint_internal::armed = static_cast<Failpoint>(known - kFailpointNames.begin());
  return Status();
}

}  // namespace gradwire
