#include "transports/control/tcp_links.h"

#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transports/control/socket.h"

namespace gradwire {
namespace {

constexpr int kPeer = 3;

struct Heard : LinkSink {
  void OnLinkMessage(int /*peer*/, ControlMessage /*message*/) override { ++messages; }
  void OnLinkLost(int peer, const Status& cause) override {
    lost.push_back(peer);
    why = cause.ToString();
  }
  std::vector<int> lost;
  std::string why;
  int messages = 0;
};

TEST(TcpLinks, LostLinkIsQuietAlsoWhileAChildOfForkHoldsItsSocket) {
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  UniqueFd far(fds[1]);
  const UniqueFd inherited(dup(fds[0]));  // as fork leaves one
  std::vector<StarLink> stars;
  stars.push_back({.peer = kPeer, .fd = UniqueFd(fds[0])});
  TcpLinks links(std::move(stars));
  ASSERT_TRUE(links.Open().ok());
  ASSERT_EQ(shutdown(far.get(), SHUT_WR), 0);

  Heard losses;
  ASSERT_TRUE(links.Wait(-1));
  links.Poll(&losses);
  EXPECT_EQ(losses.lost, std::vector<int>{kPeer});
  EXPECT_FALSE(links.Wait(0)) << "the control thread would never sleep again";
  std::byte byte;
  EXPECT_EQ(ReadSome(far.get(), {&byte, 1}).kind, ReadOutcome::Kind::kClosed);
}

// Links with one peer, whose end is `far` and who takes only what a test reads there.
class SlowPeerTest : public testing::Test {
 protected:
  void SetUp() override {
    int fds[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    far_ = UniqueFd(fds[1]);
    const int bytes = 16 << 10;
    ASSERT_EQ(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), 0);
    std::vector<StarLink> stars;
    stars.push_back({.peer = kPeer, .fd = UniqueFd(fds[0])});
    links_ = std::make_unique<TcpLinks>(std::move(stars));
    ASSERT_TRUE(links_->Open().ok());
  }

  int64_t InKernel() const {
    int bytes = 0;
    EXPECT_EQ(ioctl(far_.get(), FIONREAD, &bytes), 0);
    return bytes;
  }

  // The peer takes so many bytes, or what there is.
  std::string Take(int64_t most) const {
    std::string bytes(static_cast<size_t>(most), '\0');
    const ReadOutcome got =
        ReadSome(far_.get(), {reinterpret_cast<std::byte*>(bytes.data()), most});
    bytes.resize(got.kind == ReadOutcome::Kind::kData ? static_cast<size_t>(got.data.size) : 0);
    return bytes;
  }

  UniqueFd far_;
  std::unique_ptr<TcpLinks> links_;
  Heard heard_;
};

TEST_F(SlowPeerTest, WhatItHasNotTakenIsLimited) {
  links_->Send(kPeer, std::string(1 << 20, 'a'));
  const int64_t queued = links_->sent_bytes() - InKernel();
  ASSERT_GT(queued, 0);
  links_->Send(kPeer, std::string(TcpLinks::kMaxQueuedBytes - static_cast<size_t>(queued), 'b'));
  links_->Poll(&heard_);
  EXPECT_TRUE(heard_.lost.empty()) << heard_.why;

  links_->Send(kPeer, "c");
  EXPECT_TRUE(links_->Wait(0));
  links_->Poll(&heard_);
  EXPECT_EQ(heard_.lost, std::vector<int>{kPeer});
  EXPECT_NE(heard_.why.find("does not take"), std::string::npos) << heard_.why;
  EXPECT_EQ(links_->held_bytes(), 0);
  links_->Send(kPeer, "d");  // to nobody
  links_->Poll(&heard_);
  EXPECT_EQ(heard_.lost.size(), 1u);
}

// It takes all, but is never through: what it has taken must go.
TEST_F(SlowPeerTest, GetsAllInOrderAndWhatItHasTakenIsForgotten) {
  constexpr int64_t kStep = 16 << 10;
  std::string sent, got;
  links_->Send(kPeer, sent += std::string(1 << 20, 'a'));
  for (int i = 0; static_cast<int64_t>(sent.size()) < 16 << 20; ++i) {
    const std::string more(kStep, static_cast<char>('b' + i % 20));
    sent += more;
    links_->Send(kPeer, more);
    while (heard_.lost.empty() && got.size() + (1 << 20) < sent.size()) {
      got += Take(kStep);
      links_->Poll(&heard_);
    }
    ASSERT_TRUE(heard_.lost.empty()) << heard_.why;
    ASSERT_LE(links_->held_bytes(), 2 * std::ssize(sent) - 2 * std::ssize(got) + kStep) << i;
  }
  while (got.size() < sent.size()) {
    got += Take(kStep);
    links_->Poll(&heard_);
    ASSERT_TRUE(heard_.lost.empty()) << heard_.why;
  }
  EXPECT_TRUE(got == sent);
  EXPECT_EQ(links_->held_bytes(), 0);
  EXPECT_FALSE(links_->Wait(0)) << "nothing is left to be written";
}

TEST_F(SlowPeerTest, ClosingDoesNotWaitForIt) {
  links_->Send(kPeer, std::string(1 << 20, 'a'));
  const int64_t in_kernel = InKernel();
  links_->CloseAll();
  EXPECT_EQ(InKernel(), in_kernel);
}

TEST_F(SlowPeerTest, FencedItIsNotHeardNorItsLossTold) {
  const std::string message = EncodeControl({.src = kPeer, .fields = HeartbeatFields{}});
  ASSERT_EQ(send(far_.get(), message.data(), message.size(), 0), std::ssize(message));
  links_->Poll(&heard_);
  EXPECT_EQ(heard_.messages, 1);
  links_->Fence(kPeer);
  ASSERT_EQ(send(far_.get(), message.data(), message.size(), 0), std::ssize(message));
  links_->Poll(&heard_);
  far_.reset();
  links_->Poll(&heard_);
  EXPECT_EQ(heard_.messages, 1);
  EXPECT_TRUE(heard_.lost.empty()) << heard_.why;
  EXPECT_FALSE(links_->Wait(0));
}

}  // namespace
}  // namespace gradwire
