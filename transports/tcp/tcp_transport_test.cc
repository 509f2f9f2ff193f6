// What is particular to TCP: strangers, loss, what is left in the kernel. What every transport must
// do is in tests/conformance.
#include "transports/tcp/tcp_transport.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tests/lib/forked_ranks.h"
#include "tests/lib/recording_sink.h"
#include "transports/bootstrap/address.h"
#include "transports/control/socket.h"
#include "transports/tcp/tcp_door.h"
#include "transports/tcp/tcp_wire.h"

namespace gradwire {
namespace {

constexpr int64_t kPatienceNs = 20 * kNsPerSecond;

using Ends = std::vector<std::unique_ptr<Transport>>;

std::unique_ptr<Transport> MakeEnd(int rank, int world_size = 2) {
  auto end = MakeTcpTransport({.rank = rank, .world_size = world_size, .interface = "lo"});
  EXPECT_TRUE(end.ok()) << end.status().ToString();
  return end.ok() ? std::move(*end) : nullptr;
}

Ends Connected(int world_size) {
  Ends ends;
  std::vector<std::string> addresses;
  for (int rank = 0; rank < world_size; ++rank) {
    ends.push_back(MakeEnd(rank, world_size));
    addresses.push_back(ends.back()->address());
  }
  for (auto& end : ends) EXPECT_TRUE(end->Connect(addresses).ok());
  return ends;
}

SendOutcome Send(Transport* end, int peer, FrameHeader header, ConstBytes fragment,
                 SendToken token = 0) {
  SealFrame(&header, fragment);
  return end->TrySend(peer, header, fragment, token);
}

// --- a stranger's side

UniqueFd Call(const SocketAddress& address) {
  UniqueFd fd(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(fd.get(), address.get(), address.bytes()), 0);
  return fd;
}

UniqueFd Call(const Transport& end) {
  const auto decoded = DecodeTcpAddress(end.address());
  EXPECT_TRUE(decoded.ok());
  return Call(*ResolveHost(*ParseHostPort(decoded->host_port)));
}

TcpHello HelloFor(const Transport& end, int src) {
  return {.src = static_cast<uint16_t>(src), .token = DecodeTcpAddress(end.address())->token};
}

template <typename T>
void Say(const UniqueFd& fd, const T& value, size_t bytes = sizeof(T)) {
  EXPECT_EQ(send(fd.get(), &value, bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
}

bool IsClosed(const UniqueFd& fd) {
  std::byte byte;
  const ReadOutcome::Kind kind = ReadSome(fd.get(), {.data = &byte, .size = 1}).kind;
  return kind == ReadOutcome::Kind::kClosed || kind == ReadOutcome::Kind::kFailed;
}

// Waits for it.
bool EndsClosed(const UniqueFd& fd) {
  pollfd end = {fd.get(), POLLIN, 0};
  return poll(&end, 1, kPatienceNs / kNsPerMs) == 1 && IsClosed(fd);
}

TEST(TcpTransportTest, StrangersAreTurnedAwayAndChangeNothing) {
  Ends ends = Connected(2);
  CheckingSink heard0, heard1;
  std::vector<UniqueFd> turned_away, waiting;
  TcpHello wrong_token = HelloFor(*ends[1], 0);
  wrong_token.token[15] ^= std::byte{1};
  TcpHello wrong_version = HelloFor(*ends[1], 0);
  ++wrong_version.version;
  for (const TcpHello& hello :
       {wrong_token, wrong_version, HelloFor(*ends[1], 1), HelloFor(*ends[1], 2)}) {
    turned_away.push_back(Call(*ends[1]));
    Say(turned_away.back(), hello);
  }
  turned_away.push_back(Call(*ends[1]));
  Say(turned_away.back(), "GET / HTTP/1.1\r\nHost: example\r\n\r\n");
  waiting.push_back(Call(*ends[1]));
  waiting.push_back(Call(*ends[1]));
  Say(waiting.back(), HelloFor(*ends[1], 0), sizeof(TcpHello) - 1);
  Call(*ends[1]);  // and has gone at once

  EXPECT_EQ(Send(ends[0].get(), 1, {.message = 5}, {}), SendOutcome::kAccepted);
  EXPECT_TRUE(Until({{ends[0].get(), &heard0}, {ends[1].get(), &heard1}}, [&] {
    const bool closed = std::all_of(turned_away.begin(), turned_away.end(), IsClosed);
    return closed && !heard1.arrivals.empty();
  }));
  EXPECT_EQ(heard1.messages(), (std::vector<uint32_t>{5}));
  EXPECT_TRUE(heard0.lost.empty() && heard1.lost.empty());
  for (const UniqueFd& fd : waiting) EXPECT_FALSE(IsClosed(fd)) << "there is time yet";
}

// What `end`, rank 0 of 2, takes for rank 1.
UniqueFd ListenAsRank1(Transport* end) {
  StatusOr<UniqueFd> listener = Listen(*InterfaceAddress("lo", 0));
  EXPECT_TRUE(listener.ok()) << listener.status().ToString();
  const TcpAddress rank1 = {.rank = 1,
                            .fragment_bytes = end->caps().max_fragment_bytes,
                            .host_port = BoundAddress(listener->get())->ToString()};
  EXPECT_TRUE(end->Connect(std::vector<std::string>{end->address(), EncodeTcpAddress(rank1)}).ok());
  return std::move(*listener);
}

// Waits for it.
UniqueFd Accept(const UniqueFd& listener) {
  pollfd caller = {listener.get(), POLLIN, 0};
  EXPECT_EQ(poll(&caller, 1, kPatienceNs / kNsPerMs), 1);
  return UniqueFd(accept(listener.get(), nullptr, nullptr));
}

// Whether all that has come is a greeting and a frame without a fragment.
bool HasHeardAFrame(const UniqueFd& fd) {
  std::array<std::byte, 4096> all;
  const ssize_t bytes = recv(fd.get(), all.data(), all.size(), MSG_PEEK | MSG_DONTWAIT);
  return bytes == static_cast<ssize_t>(sizeof(TcpHello)) + TcpFrameBytes(0);
}

TEST(TcpTransportTest, StrangersPushNoRankOutOfTheJob) {
  Ends ends = Connected(2);
  CheckingSink heard0, heard1;
  EXPECT_EQ(Send(ends[0].get(), 1, {.message = 5}, {}), SendOutcome::kAccepted);
  ASSERT_TRUE(Until({{ends[1].get(), &heard1}}, [&] { return heard1.arrivals.empty(); }));
  std::vector<UniqueFd> strangers;
  for (size_t i = 0; i <= TcpDoor::MostStrangers(2); ++i) strangers.push_back(Call(*ends[1]));
  // Rank 0, which computes, was there before.
  ASSERT_TRUE(Until({{ends[1].get(), &heard1}}, [&] { return IsClosed(strangers[0]); }));
  EXPECT_TRUE(Until({{ends[0].get(), &heard0}, {ends[1].get(), &heard1}}, [&] {
    return !heard1.arrivals.empty() || !heard0.lost.empty();
  })) << "nothing comes";
  EXPECT_EQ(heard1.messages(), (std::vector<uint32_t>{5}));
  EXPECT_TRUE(heard0.lost.empty()) << heard0.why;
}

TEST(TcpTransportTest, RankThatWasNotHeardCallsAgain) {
  auto end = MakeEnd(0);
  const UniqueFd listener = ListenAsRank1(end.get());
  CheckingSink heard;
  EXPECT_EQ(Send(end.get(), 1, {}, {}, 7), SendOutcome::kAccepted);
  for (int i = 0; i < 3; ++i) {
    Accept(listener).reset();
    end->Progress(&heard);
  }
  const UniqueFd connection = Accept(listener);
  EXPECT_TRUE(Until({{end.get(), &heard}}, [&] { return HasHeardAFrame(connection); }));
  EXPECT_EQ(heard.sent, std::vector<SendToken>{7});
  EXPECT_TRUE(heard.lost.empty()) << heard.why;
  EXPECT_EQ(end->framing_bytes(), int64_t{sizeof(TcpHello) + sizeof(TcpPrefix)});
}

TEST(TcpTransportTest, PeerThatHearsNobodyIsLostInTheEnd) {
  auto end = MakeEnd(0);
  const UniqueFd listener = ListenAsRank1(end.get());
  CheckingSink heard;
  EXPECT_EQ(Send(end.get(), 1, {}, {}, 7), SendOutcome::kAccepted);
  int calls = 0;
  for (; heard.lost.empty() && calls < 100; ++calls) {
    Accept(listener).reset();
    end->Progress(&heard);
  }
  EXPECT_EQ(calls, 8);
  EXPECT_EQ(heard.sent, std::vector<SendToken>{7});
}

// Its greeting might cross the close of a door that is under siege.
TEST(TcpTransportTest, RankThatStoodStillGreetsOnANewConnection) {
  auto end = MakeEnd(0);
  const UniqueFd listener = ListenAsRank1(end.get());
  CheckingSink heard;
  EXPECT_EQ(Send(end.get(), 1, {}, {}, 7), SendOutcome::kAccepted);
  const UniqueFd old = Accept(listener);
  pollfd nothing_comes = {old.get(), POLLIN, 0};
  ASSERT_EQ(poll(&nothing_comes, 1, TcpDoor::kYouthNs / kNsPerMs), 0);
  end->Progress(&heard);
  EXPECT_TRUE(EndsClosed(old));
  const UniqueFd connection = Accept(listener);
  EXPECT_TRUE(Until({{end.get(), &heard}}, [&] { return HasHeardAFrame(connection); }));
  EXPECT_TRUE(heard.lost.empty()) << heard.why;
}

TEST(TcpTransportTest, RankConnectsOnce) {
  Ends ends = Connected(2);
  CheckingSink heard0, heard1;
  EXPECT_EQ(Send(ends[0].get(), 1, {.message = 1}, {}), SendOutcome::kAccepted);
  const std::vector<std::pair<Transport*, Sink*>> both = {{ends[0].get(), &heard0},
                                                          {ends[1].get(), &heard1}};
  ASSERT_TRUE(Until(both, [&] { return heard1.arrivals.size() == 1; }));
  const UniqueFd second = Call(*ends[1]);
  Say(second, HelloFor(*ends[1], 0));
  EXPECT_TRUE(Until(both, [&] { return IsClosed(second); }));
  EXPECT_EQ(Send(ends[0].get(), 1, {.message = 2}, {}), SendOutcome::kAccepted);
  EXPECT_TRUE(Until(both, [&] { return heard1.arrivals.size() == 2; }));
  EXPECT_TRUE(heard1.lost.empty());
}

TEST(TcpTransportTest, DamagedStreamLosesItsPeerOnly) {
  const auto most = static_cast<uint32_t>(MakeEnd(0)->caps().max_fragment_bytes);
  TcpPrefix too_long = {.payload_bytes = most + 1};
  TcpPrefix wrong_magic = {};
  wrong_magic.magic ^= 1u << 31;
  for (const TcpPrefix& prefix : {too_long, wrong_magic}) {
    Ends ends = Connected(3);
    CheckingSink heard1, heard2;
    const UniqueFd rank0 = Call(*ends[1]);
    Say(rank0, HelloFor(*ends[1], 0));
    Say(rank0, prefix);
    EXPECT_TRUE(Until({{ends[1].get(), &heard1}}, [&] { return !heard1.lost.empty(); }));
    EXPECT_EQ(heard1.lost, (std::vector<int>{0}));
    EXPECT_NE(heard1.why.find("from rank 0: what came is no frame"), heard1.why.npos);
    EXPECT_EQ(Send(ends[1].get(), 0, {}, {}), SendOutcome::kLost);
    EXPECT_EQ(Send(ends[1].get(), 2, {.message = 3}, {}), SendOutcome::kAccepted);
    EXPECT_TRUE(Until({{ends[1].get(), &heard1}, {ends[2].get(), &heard2}},
                      [&] { return !heard2.arrivals.empty(); }));
  }
}

TEST(TcpTransportTest, EndInTheMiddleOfAFrameIsALoss) {
  Ends ends = Connected(2);
  CheckingSink heard;
  UniqueFd rank0 = Call(*ends[1]);
  Say(rank0, HelloFor(*ends[1], 0));
  Say(rank0, TcpPrefix{.payload_bytes = 8});
  rank0.reset();
  EXPECT_TRUE(Until({{ends[1].get(), &heard}}, [&] { return !heard.lost.empty(); }));
  EXPECT_NE(heard.why.find("in the middle of a frame"), heard.why.npos) << heard.why;
  EXPECT_TRUE(heard.arrivals.empty());
}

// --- the end of a peer

// Rank 0 has sent eight fragments and is gone before rank 1 looks.
void ExpectLastWords(bool rank1_speaks_first) {
  Ends ends = Connected(2);
  CheckingSink heard0, heard1;
  const std::vector<std::byte> data(4096, std::byte{3});
  for (uint32_t i = 0; i < 8; ++i) {
    const auto outcome = [&] {
      return Send(ends[0].get(), 1, {.message = i}, {data.data(), 4096}, i);
    };
    ASSERT_TRUE(
        Until({{ends[0].get(), &heard0}}, [&] { return outcome() == SendOutcome::kAccepted; }));
  }
  ASSERT_TRUE(Until({{ends[0].get(), &heard0}}, [&] { return heard0.sent.size() == 8; }));
  ends[0].reset();
  if (rank1_speaks_first) {
    EXPECT_NE(Send(ends[1].get(), 0, {}, {}, 9), SendOutcome::kFull);
  }
  EXPECT_TRUE(Until({{ends[1].get(), &heard1}}, [&] { return !heard1.lost.empty(); }));
  EXPECT_EQ(heard1.messages(), (std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(Send(ends[1].get(), 0, {}, {}), SendOutcome::kLost);
}

TEST(TcpTransportTest, LastWordsArriveBeforeTheLoss) { ExpectLastWords(false); }

TEST(TcpTransportTest, RefusedConnectionDoesNotHideThem) { ExpectLastWords(true); }

TEST(TcpTransportTest, RankThatNeverSpokeIsLostToWhomWritesToIt) {
  Ends ends = Connected(2);
  CheckingSink heard;
  ends[1].reset();
  EXPECT_NE(Send(ends[0].get(), 1, {}, {}, 7), SendOutcome::kFull);
  EXPECT_TRUE(Until({{ends[0].get(), &heard}}, [&] { return !heard.lost.empty(); }));
  EXPECT_NE(heard.why.find("to rank 1 at 127.0.0.1:"), heard.why.npos) << heard.why;
  EXPECT_NE(heard.why.find("refused"), heard.why.npos) << heard.why;
  EXPECT_EQ(ends[0]->Progress(&heard), 0);
}

// Another program of the process may have used up what it may open.
TEST(TcpTransportTest, WithoutADescriptorItIsNotThePeerThatFails) {
  Ends ends = Connected(2);
  CheckingSink sink;
  sink.code_of_loss = gwSystemError;
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const SendOutcome outcome = Send(ends[0].get(), 1, {}, {});
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(outcome, SendOutcome::kLost);
  ASSERT_TRUE(Until({{ends[0].get(), &sink}}, [&] { return !sink.lost.empty(); }));
  EXPECT_NE(sink.why.find("Too many open files"), sink.why.npos) << sink.why;
}

// A wall lets connections through in one direction only.
TEST(TcpTransportTest, PeerThatCannotBeReachedIsToldAndHeardToItsEnd) {
  auto end = MakeEnd(1);
  auto listener = Listen(*InterfaceAddress("lo", 0));
  ASSERT_TRUE(listener.ok());
  const TcpAddress nobody = {.fragment_bytes = end->caps().max_fragment_bytes,
                             .host_port = BoundAddress(listener->get())->ToString()};
  listener->reset();
  ASSERT_TRUE(
      end->Connect(std::vector<std::string>{EncodeTcpAddress(nobody), end->address()}).ok());
  UniqueFd rank0 = Call(*end);
  Say(rank0, HelloFor(*end, 0));
  const auto speak = [&](uint32_t message) {
    Say(rank0, TcpPrefix{});
    Say(rank0, FrameHeader{.message = message});
  };
  speak(1);
  CheckingSink heard;
  ASSERT_TRUE(Until({{end.get(), &heard}}, [&] { return heard.arrivals.size() == 1; }));
  EXPECT_EQ(Send(end.get(), 0, {}, {}, 7), SendOutcome::kAccepted);
  ASSERT_TRUE(Until({{end.get(), &heard}}, [&] { return !heard.sent.empty(); }));
  EXPECT_EQ(Send(end.get(), 0, {}, {}), SendOutcome::kLost);
  EXPECT_TRUE(EndsClosed(rank0));
  speak(2);
  ASSERT_TRUE(Until({{end.get(), &heard}}, [&] { return heard.arrivals.size() == 2; }));
  EXPECT_TRUE(heard.lost.empty());
  rank0.reset();
  ASSERT_TRUE(Until({{end.get(), &heard}}, [&] { return !heard.lost.empty(); }));
  EXPECT_NE(heard.why.find("refused"), heard.why.npos) << heard.why;
}

TEST(TcpTransportTest, KilledProcessIsNoticedAndItsTokensComeBack) {
  const auto body = [](ForkedRank& rank) -> std::string {
    auto end = MakeTcpTransport({.rank = rank.rank(), .world_size = 2, .interface = "lo"});
    if (!end.ok()) return end.status().ToString();
    if (!(*end)->Connect(rank.Gather((*end)->address())).ok()) return "no connect";
    CheckingSink heard;
    const std::vector<std::byte> data((*end)->caps().max_fragment_bytes);
    SendToken tokens = 0;
    const auto flood = [&] {
      const ConstBytes all = {data.data(), static_cast<int64_t>(data.size())};
      if (Send(end->get(), 1, {}, all, tokens) == SendOutcome::kAccepted) ++tokens;
    };
    if (rank.rank() == 1) {
      Until({{end->get(), &heard}}, [&] { return heard.arrivals.size() >= 20; });
      raise(SIGKILL);
    }
    const bool lost = Until({{end->get(), &heard}}, [&] {
      flood();
      return !heard.lost.empty();
    });
    if (!lost) return "the loss was not noticed";
    return heard.sent.size() == tokens ? "" : "tokens are out";
  };
  EXPECT_EQ(Failures(RunForked(2, body), 1), "");
}

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
  Ends ends;
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
}

TEST(TcpTransportTest, QueueIsBoundedAndCancelFreesEverySource) {
  Ends ends = Connected(2);
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

// --- the door, whose clock stands still until it is told

class TcpDoorTest : public testing::Test {
 protected:
  void SetUp() override {
    const Status opened = door_.Open(*InterfaceAddress("lo", 0));
    ASSERT_TRUE(opened.ok()) << opened.ToString();
  }

  // Once something has come.
  void Visit() {
    pollfd fd = {door_.fd(), POLLIN, 0};
    ASSERT_EQ(poll(&fd, 1, kPatienceNs / kNsPerMs), 1);
    door_.Visit(&guests_);
  }

  ManualClock clock_;
  TcpDoor door_{clock_, 2};
  std::vector<TcpGuest> guests_;
};

TEST_F(TcpDoorTest, SilentStrangerIsTurnedAwayInTheEnd) {
  const UniqueFd silent = Call(door_.address());
  Visit();
  clock_.Advance(TcpDoor::kPatienceNs);
  EXPECT_FALSE(door_.overdue());
  clock_.Advance(1);
  EXPECT_TRUE(door_.overdue());
  door_.Visit(&guests_);
  EXPECT_TRUE(EndsClosed(silent));
  EXPECT_FALSE(door_.overdue());
  EXPECT_TRUE(guests_.empty());
}

TEST_F(TcpDoorTest, OneStrangerTooManyPushesTheOldestOut) {
  std::vector<UniqueFd> strangers;
  for (size_t i = 0; i < TcpDoor::MostStrangers(2); ++i) {
    strangers.push_back(Call(door_.address()));
    Visit();
  }
  strangers.push_back(Call(door_.address()));
  door_.Visit(&guests_);
  EXPECT_FALSE(IsClosed(strangers.front())) << "it is new, and the last one waits";
  pollfd door = {door_.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&door, 1, 0), 0) << "every wait would end at once";
  clock_.Advance(TcpDoor::kYouthNs - 1);
  EXPECT_FALSE(door_.overdue());
  clock_.Advance(1);
  EXPECT_TRUE(door_.overdue());
  door_.Visit(&guests_);
  Visit();
  EXPECT_TRUE(EndsClosed(strangers[0]));
  EXPECT_FALSE(IsClosed(strangers[1]));
  // A member is let in all the same.
  const UniqueFd member = Call(door_.address());
  Say(member, TcpHello{.src = 1, .token = door_.token()});
  while (guests_.empty() && !HasFatalFailure()) Visit();
  ASSERT_EQ(guests_.size(), 1u);
  EXPECT_EQ(guests_[0].src, 1);
}

// A visit looks at 64 of those who have spoken, and the member has spoken last.
TEST_F(TcpDoorTest, HelloThatHasComeIsReadBeforeItsRankIsPushedOut) {
  std::vector<UniqueFd> callers;
  for (size_t i = 0; i < TcpDoor::MostStrangers(2); ++i) {
    callers.push_back(Call(door_.address()));
    Visit();
  }
  clock_.Advance(TcpDoor::kYouthNs);
  door_.Visit(&guests_);
  const UniqueFd one_more = Call(door_.address());
  for (size_t i = 1; i < callers.size(); ++i) Say(callers[i], std::byte{0});
  Say(callers[0], TcpHello{.src = 1, .token = door_.token()});
  Visit();
  ASSERT_EQ(guests_.size(), 1u);
  EXPECT_EQ(guests_[0].src, 1);
  EXPECT_FALSE(IsClosed(callers[0]));
}

// The sockets of this process, as a child of fork holds them.
std::vector<UniqueFd> CopiesOfSockets() {
  std::vector<int> fds;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    int type = 0;
    socklen_t bytes = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0) fds.push_back(fd);
  }
  std::vector<UniqueFd> copies;
  for (const int fd : fds) copies.emplace_back(dup(fd));
  return copies;
}

TEST_F(TcpDoorTest, StrangerIsTurnedAwayAlsoWhileAChildOfForkHoldsItsSocket) {
  const UniqueFd stranger = Call(door_.address());
  Visit();
  const std::vector<UniqueFd> inherited = CopiesOfSockets();
  Say(stranger, std::array<TcpHello, 2>{});  // more than anybody will read
  Visit();
  pollfd door = {door_.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&door, 1, 0), 0) << "every later wait would end at once";
  EXPECT_TRUE(EndsClosed(stranger));
}

TEST_F(TcpDoorTest, HelloMayComeByteByByte) {
  const UniqueFd slow = Call(door_.address());
  const TcpHello hello = {.src = 1, .token = door_.token()};
  for (size_t i = 0; i < sizeof hello; ++i) {
    EXPECT_TRUE(guests_.empty());
    Say(slow, reinterpret_cast<const std::byte*>(&hello)[i], 1);
    Visit();
  }
  while (guests_.empty() && !HasFatalFailure()) Visit();
  ASSERT_EQ(guests_.size(), 1u);
  EXPECT_FALSE(door_.overdue());
}

}  // namespace
}  // namespace gradwire
