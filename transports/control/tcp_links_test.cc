#include "transports/control/tcp_links.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>
#include <vector>

namespace gradwire {
namespace {

struct Losses : LinkSink {
  void OnLinkMessage(int /*peer*/, ControlMessage /*message*/) override {}
  void OnLinkLost(int peer, const Status& /*cause*/) override { lost.push_back(peer); }
  std::vector<int> lost;
};

TEST(TcpLinks, LostLinkIsQuietAlsoWhileAChildOfForkHoldsItsSocket) {
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  UniqueFd far(fds[1]);
  const UniqueFd inherited(dup(fds[0]));  // as fork leaves one
  std::vector<StarLink> stars;
  stars.push_back({.peer = 3, .fd = UniqueFd(fds[0])});
  auto links = TcpLinks::Create(std::move(stars));
  ASSERT_TRUE(links.ok()) << links.status().ToString();
  ASSERT_EQ(shutdown(far.get(), SHUT_WR), 0);

  Losses losses;
  ASSERT_TRUE((*links)->Wait(-1));
  (*links)->Poll(&losses);
  EXPECT_EQ(losses.lost, std::vector<int>{3});
  EXPECT_FALSE((*links)->Wait(0)) << "the control thread would never sleep again";
  std::byte byte;
  EXPECT_EQ(ReadSome(far.get(), {&byte, 1}).kind, ReadOutcome::Kind::kClosed);
}

}  // namespace
}  // namespace gradwire
