#include "cli/launch/rank_variables.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdint>

#include "base/unique_fd.h"

namespace gradwire {
namespace {

constexpr int kFirstPort = 20000;
constexpr int kPorts = 12000;
constexpr int kPortAttempts = 100;

bool IsFree(const std::string& address, int port) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(port));
  return fd.valid() && inet_pton(AF_INET, address.c_str(), &name.sin_addr) == 1 &&
         bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0;
}

}  // namespace

Variables RankVariables(const JobAddress& job, int rank) {
  const std::string number = fmt::to_string(rank);
  const std::string ranks = fmt::to_string(job.ranks);
  return {{"GRADWIRE_RANK", number},
          {"GRADWIRE_WORLD_SIZE", ranks},
          {"GRADWIRE_LOCAL_RANK", number},
          {"GRADWIRE_LOCAL_WORLD_SIZE", ranks},
          {"GRADWIRE_ROOT", fmt::format("{}:{}", job.host, job.root_port)},
          // The root has the port: one of the user's or of gradwire.toml would contradict it.
          {"GRADWIRE_PORT", "0"},
          {"GRADWIRE_SECRET", job.secret},
          {"RANK", number},
          {"WORLD_SIZE", ranks},
          {"LOCAL_RANK", number},
          {"LOCAL_WORLD_SIZE", ranks},
          {"MASTER_ADDR", job.host},
          {"MASTER_PORT", fmt::to_string(job.master_port)}};
}

Variables SeparateHostVariables(int rank, const std::string& interface, const std::string& rate) {
  Variables variables = {{"GRADWIRE_INTERFACE", interface},
                         {"GRADWIRE_HOST_ID", fmt::to_string(rank)},
                         // The same for others whom one may want to compare with.
                         {"GLOO_SOCKET_IFNAME", interface},
                         {"NCCL_SOCKET_IFNAME", interface}};
  if (!rate.empty()) variables.emplace_back("GRADWIRE_NETLAB", rate);
  return variables;
}

std::string PathWithFirst(const std::string& folder, const std::string& path) {
  return path.empty() ? folder : folder + ":" + path;
}

StatusOr<std::string> MakeSecret() {
  std::array<uint8_t, 32> bytes;
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return ErrnoStatus("no random numbers", errno);
  }
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

StatusOr<int> FindFreePort(const std::string& address) {
  for (int attempt = 0; attempt < kPortAttempts; ++attempt) {
    uint32_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random) break;
    const int port = kFirstPort + static_cast<int>(random % kPorts);
    if (IsFree(address, port)) return port;
  }
  return Status(gwSystemError, fmt::format("found no free TCP port on {}", address));
}

}  // namespace gradwire
