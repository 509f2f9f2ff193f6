#include "cli/text_input.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

namespace gradwire {

StatusOr<std::string> ReadTextFrom(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  // A folder can be opened, but not read.
  file.peek();
  if (file.bad() || !file.is_open()) {
    return Status(gwInvalidArgument,
                  fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
  }
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace gradwire
