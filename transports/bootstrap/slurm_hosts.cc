#include <fmt/format.h>

#include "transports/bootstrap/launcher.h"

namespace gradwire {
namespace {

bool IsHostCharacter(char c) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return letter || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

// The first number of a bracket's "003-005,9": everything up to its first separator.
std::string FirstNumber(const std::string& ranges) {
  const std::string number = ranges.substr(0, ranges.find_first_of("-,"));
  const bool digits = number.find_first_not_of("0123456789") == std::string::npos;
  return digits ? number : std::string();
}

}  // namespace

StatusOr<std::string> FirstSlurmHost(const std::string& node_list) {
  const Status wrong(gwInvalidArgument, fmt::format("'{}' is not a Slurm node list", node_list));
  std::string host;
  size_t at = 0;
  while (at < node_list.size() && node_list[at] != ',') {
    if (node_list[at] == '[') {
      const size_t end = node_list.find(']', at);
      if (end == std::string::npos) return wrong;
      const std::string number = FirstNumber(node_list.substr(at + 1, end - at - 1));
      if (number.empty()) return wrong;
      host += number;
      at = end + 1;
    } else if (IsHostCharacter(node_list[at])) {
      host += node_list[at++];
    } else {
      return wrong;
    }
  }
  if (host.empty()) return wrong;
  return host;
}

}  // namespace gradwire
