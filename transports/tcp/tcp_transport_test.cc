// What is particular to TCP besides its door and losses, which have tests of their own: what is
// left in the kernel, and the set-up. What every transport must do is in tests/conformance.
#include "transports/tcp/tcp_transport.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "tests/lib/recording_sink.h"
#include "transports/bootstrap/address.h"
#include "transports/tcp/tcp_ends.h"
#include "transports/tcp/tcp_wire.h"

namespace gradwire {
namespace {

// --- what is in the kernel

// This process's descriptors that are connections with keep-alive.
std::vector<int> KeptAlive() {
  std::vector<int> fds;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    int on = 0;
    socklen_t bytes = sizeof on;
    if (getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &bytes) == 0 && on == 1) fds.push_back(fd);
  }
  return fds;
}

int TcpOption(int fd, int name) {
  int value = 0;
  socklen_t bytes = sizeof value;
  EXPECT_EQ(getsockopt(fd, IPPROTO_TCP, name, &value, &bytes), 0);
  return value;
}

// Of connections between two ranks with this death timeout.
void ExpectFiveQuestions(int64_t death_ns, int idle_s, int interval_s) {
  TcpEnds ends;
  std::vector<std::string> addresses;
  for (int rank = 0; rank < 2; ++rank) {
    auto end = MakeTcpTransport(
        {.rank = rank, .world_size = 2, .interface = "lo", .death_timeout_ns = death_ns});
    ASSERT_TRUE(end.ok()) << end.status().ToString();
    addresses.push_back((*end)->address());
    ends.push_back(std::move(*end));
  }
  for (auto& end : ends) ASSERT_TRUE(end->Connect(addresses).ok());
  CheckingSink heard0, heard1;
  ASSERT_EQ(Send(ends[0].get(), 1, {.message = 1}, {}), SendOutcome::kAccepted);
  ASSERT_TRUE(Until({{ends[0].get(), &heard0}, {ends[1].get(), &heard1}},
                    [&] { return !heard1.arrivals.empty(); }));
  const std::vector<int> connections = KeptAlive();
  EXPECT_EQ(connections.size(), 2u);  // the two ends of one
  for (const int fd : connections) {
    EXPECT_EQ(TcpOption(fd, TCP_KEEPCNT), 5) << "one lost packet must end no idle connection";
    EXPECT_EQ(TcpOption(fd, TCP_KEEPIDLE), idle_s);
    EXPECT_EQ(TcpOption(fd, TCP_KEEPINTVL), interval_s);
  }
}

TEST(TcpTransportTest, AnIdleConnectionIsAskedFiveTimesWhateverTheTimeout) {
  ExpectFiveQuestions(10 * kNsPerSecond, 10, 2);
  ExpectFiveQuestions(3 * kNsPerSecond, 3, 1);
  ExpectFiveQuestions(1 * kNsPerSecond, 1, 1);
  ExpectFiveQuestions(1, 1, 1);
  constexpr int kMostS = 32767;  // that the kernel takes
  ExpectFiveQuestions(7 * 24 * 3600 * kNsPerSecond, kMostS, kMostS / 5);
}

TEST(TcpTransportTest, QueueIsBoundedAndCancelFreesEverySource) {
  TcpEnds ends = Connected(2);
  CheckingSink heard0, heard1;
  std::vector<std::byte> data(ends[0]->caps().max_fragment_bytes, std::byte{1});
  const ConstBytes all = {data.data(), static_cast<int64_t>(data.size())};
  // Rank 1 lets rank 0 in, and listens no more.
  EXPECT_EQ(Send(ends[0].get(), 1, {.op_seq = 1}, {}, 1000), SendOutcome::kAccepted);
  ASSERT_TRUE(Until({{ends[0].get(), &heard0}, {ends[1].get(), &heard1}},
                    [&] { return !heard1.arrivals.empty(); }));
  SendToken accepted = 0;
  int64_t refused_in_a_row = 0;
  ASSERT_TRUE(Until({{ends[0].get(), &heard0}}, [&] {
    const bool taken = Send(ends[0].get(), 1, {.op_seq = 1}, all, accepted) != SendOutcome::kFull;
    accepted += taken;
    refused_in_a_row = taken ? 0 : refused_in_a_row + 1;
    return refused_in_a_row > 1000;
  }));
  EXPECT_LT(heard0.sent.size(), accepted + 1);
  ends[0]->Cancel(1);
  ends[0]->Progress(&heard0);
  EXPECT_EQ(heard0.sent.size(), accepted + 1);
  std::fill(data.begin(), data.end(), std::byte{2});  // which no frame of operation 1 may show
  EXPECT_EQ(Send(ends[0].get(), 1, {.op_seq = 2}, all, 2000), SendOutcome::kAccepted);
  EXPECT_TRUE(Until({{ends[0].get(), &heard0}, {ends[1].get(), &heard1}},
                    [&] { return heard1.arrivals.back().header.op_seq == 2; }));
  EXPECT_LT(heard1.arrivals.size(), accepted + 2) << "nothing was dropped";
}

TEST(TcpTransportTest, FramingIsWhatTravelsBesideFrames) {
  auto end = MakeEnd(0);
  const UniqueFd listener = ListenAsRank1(end.get());
  CheckingSink heard;
  const std::byte data[100] = {};
  int64_t frames = 0, payload = 0;
  for (const int64_t bytes : {0, 1, 64, 100}) {
    EXPECT_EQ(Send(end.get(), 1, {}, {data, bytes}, bytes), SendOutcome::kAccepted);
    ++frames, payload += bytes;
  }
  ASSERT_TRUE(Until({{end.get(), &heard}}, [&] { return heard.sent.size() == 4; }));
  const int64_t framing = end->framing_bytes();
  end.reset();
  const UniqueFd connection(accept(listener.get(), nullptr, nullptr));
  std::vector<std::byte> all(4096);
  const ssize_t travelled = recv(connection.get(), all.data(), all.size(), MSG_WAITALL);
  EXPECT_EQ(travelled, payload + frames * int64_t{sizeof(FrameHeader)} + framing);
}

// --- set-up

TEST(TcpTransportTest, DifferentEndsAreRefused) {
  auto end = MakeEnd(0);
  const TcpAddress good = {
      .rank = 1, .fragment_bytes = end->caps().max_fragment_bytes, .host_port = "127.0.0.1:1"};
  TcpAddress other_size = good, other_rank = good, no_port = good;
  other_size.fragment_bytes = 64;
  other_rank.rank = 0;
  no_port.host_port = "nowhere";
  const auto connect = [&](const TcpAddress& peer) {
    return end->Connect(std::vector<std::string>{end->address(), EncodeTcpAddress(peer)}).code();
  };
  EXPECT_EQ(connect(other_size), gwTransportUnavailable);
  EXPECT_EQ(connect(other_rank), gwInvalidArgument);
  EXPECT_EQ(connect(no_port), gwInvalidArgument);
  EXPECT_EQ(connect(good), gwSuccess);
}

TEST(TcpTransportTest, OptionsAreChecked) {
  for (const TransportOptions& options :
       {TransportOptions{.rank = 2, .world_size = 2}, TransportOptions{.rank = -1},
        TransportOptions{.world_size = 0}, TransportOptions{.fragment_bytes = 100},
        TransportOptions{.fragment_bytes = 2 << 20}}) {
    EXPECT_EQ(MakeTcpTransport(options).status().code(), gwInvalidArgument);
  }
  const Status unknown = MakeTcpTransport({.interface = "gwnone0"}).status();
  EXPECT_EQ(unknown.code(), gwTransportUnavailable);
  EXPECT_NE(unknown.ToString().find("gwnone0"), std::string::npos) << unknown.ToString();
}

// The address that a rank of these options gives to others, without its port.
std::string HostOf(const TransportOptions& options) {
  auto end = MakeTcpTransport(options);
  if (!end.ok()) return end.status().ToString();
  return ParseHostPort(DecodeTcpAddress((*end)->address())->host_port)->host;
}

TEST(TcpTransportTest, ListensWhereItReachesTheRootFromUnlessAnInterfaceIsNamed) {
  EXPECT_EQ(HostOf({.root = "127.0.0.1:29600"}), "127.0.0.1");
  EXPECT_EQ(HostOf({.interface = "lo", .root = "192.0.2.1:29600"}), "127.0.0.1");
  const std::string otherwise = HostOf({});
  EXPECT_EQ(HostOf({.root = "192.0.2.1:29600"}), otherwise) << "behind the default route";
  EXPECT_EQ(HostOf({.root = "[fe80::1]:29600"}), otherwise) << "nowhere";
  EXPECT_EQ(MakeTcpTransport({.root = "node1"}).status().code(), gwTransportUnavailable);
}

}  // namespace
}  // namespace gradwire
