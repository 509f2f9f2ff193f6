// Where the ranks of a group meet. Who is in which group, and what is refused, has
// tests/integration/groups.
#include "runtime/start/comm_split.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <filesystem>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "runtime/start/comm_start.h"
#include "runtime/start/load_settings.h"
#include "transports/bootstrap/address.h"
#include "transports/bootstrap/unique_id.h"

namespace gradwire {
namespace {

// The local addresses of this process's TCP connections and listeners.
std::vector<SocketAddress> OwnAddresses() {
  std::vector<SocketAddress> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename().string());
    int type = 0;
    socklen_t bytes = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) != 0 || type != SOCK_STREAM) continue;
    const StatusOr<SocketAddress> address = BoundAddress(fd);
    if (address.ok() && (address->family() == AF_INET || address->family() == AF_INET6))
      found.push_back(*address);
  }
  return found;
}

// Whatever network the default route leads to: there the others may not be.
TEST(Split, AGroupMeetsInTheNetworkOfItsParent) {
  const StatusOr<Settings> settings = LoadSettings("transport=loopback", {});
  ASSERT_TRUE(settings.ok()) << settings.status().ToString();
  const StatusOr<UniqueId> id = CreateUniqueId({.host = "127.0.0.1"});
  ASSERT_TRUE(id.ok()) << id.status().ToString();
  std::latch both_have_split(2), looked(1);
  const auto run = [&](int rank) {
    const auto parent = StartByUniqueId(*id, rank, 2, *settings);
    EXPECT_TRUE(parent.ok()) << parent.status().ToString();
    StatusOr<std::unique_ptr<Communicator>> group = Status();
    if (parent.ok()) group = Split(**parent, {.color = 0, .settings = &*settings});
    EXPECT_TRUE(group.ok()) << group.status().ToString();
    both_have_split.count_down();
    looked.wait();
  };
  std::thread first(run, 0), second(run, 1);
  both_have_split.wait();
  const std::vector<SocketAddress> addresses = OwnAddresses();
  looked.count_down();
  first.join();
  second.join();
  EXPECT_GE(addresses.size(), 4u) << "two links with two ends each";
  for (const SocketAddress& address : addresses) EXPECT_TRUE(address.IsLoopback());
}

}  // namespace
}  // namespace gradwire
