#include "runtime/start/host_facts.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <fstream>

namespace gradwire {
namespace {

// Which namespace of a kind this process is in; 0: unknown.
uint64_t Namespace(const char* kind) {
  struct stat file = {};
  return stat(fmt::format("/proc/self/ns/{}", kind).c_str(), &file) == 0 ? file.st_ino : 0;
}

}  // namespace

std::string BootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  return boot;
}

std::string HostId() {
  const uint64_t net = Namespace("net"), pid = Namespace("pid"), user = Namespace("user");
  // Where the system does not tell, a process is on a host of its own.
  if (BootId().empty() || net == 0 || pid == 0) return fmt::format("unknown/{}", WallNs());
  // Who opens another process's files has its user and its group.
  return fmt::format("{}/{}/{}/{}/{}/{}", BootId(), net, pid, user, geteuid(), getegid());
}

std::string HostName() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

int64_t WallNs() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_1970).count();
}

}  // namespace gradwire
