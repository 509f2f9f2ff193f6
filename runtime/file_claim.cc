#include "runtime/file_claim.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

namespace gradwire {

std::string ClaimFile(std::string_view path, uint64_t job) {
  // Of the process, as the files are: communicators know nothing of each other.
  static std::mutex mu;
  static auto* const taken = new std::map<std::string, uint64_t>;
  const std::lock_guard lock(mu);
  const bool is_its = taken->try_emplace(std::string(path), job).first->second == job;
  return is_its ? std::string(path) : fmt::format("{}-{:016x}", path, job);
}

}  // namespace gradwire
