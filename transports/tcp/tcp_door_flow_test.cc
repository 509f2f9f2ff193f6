// Who comes in at the door of a rank: strangers, members whom they push out, and those who call
// again.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "tests/lib/recording_sink.h"
#include "tests/lib/sanitized.h"
#include "transports/bootstrap/address.h"
#include "transports/tcp/tcp_door.h"
#include "transports/tcp/tcp_ends.h"
#include "transports/tcp/tcp_wire.h"

namespace gradwire {
namespace {

TEST(TcpDoorFlowTest, StrangersAreTurnedAwayAndChangeNothing) {
  TcpEnds ends = Connected(2);
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

TEST(TcpDoorFlowTest, StrangersPushNoRankOutOfTheJob) {
  TcpEnds ends = Connected(2);
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

TEST(TcpDoorFlowTest, RankThatWasNotHeardCallsAgain) {
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

TEST(TcpDoorFlowTest, PeerThatHearsNobodyIsLostInTheEnd) {
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
TEST(TcpDoorFlowTest, RankThatStoodStillGreetsOnANewConnection) {
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

TEST(TcpDoorFlowTest, RankConnectsOnce) {
  TcpEnds ends = Connected(2);
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

// While it lives this process can open nothing, and wait for as many files as the limit has.
class NoDescriptors {
 public:
  NoDescriptors() {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit none = {.rlim_cur = 2, .rlim_max = before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoDescriptors() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_ = {};
};

TEST_F(TcpDoorTest, TellsHowLongNobodyCouldComeIn) {
  if (kSanitized) GTEST_SKIP() << "to look at an object it opens a pipe";
  constexpr int64_t kShortNs = 10 * kNsPerSecond;
  UniqueFd caller = Call(door_.address());
  for (const bool stays : {true, false}) {
    {
      const NoDescriptors none;
      Visit();
      clock_.Advance(kShortNs);
      door_.Visit(&guests_);
      EXPECT_EQ(door_.short_for_ns(), kShortNs);
    }
    if (!stays) caller.reset();
    clock_.Advance(kShortNs);
    door_.Visit(&guests_);
    EXPECT_EQ(door_.short_for_ns(), 0) << "who has gone may be let in too";
    if (stays) caller = Call(door_.address());
  }
}

// While it lives this process has no descriptor left, until it closes one.
class AllDescriptorsTaken {
 public:
  AllDescriptorsTaken() {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    taken_.emplace_back(eventfd(0, EFD_CLOEXEC));
    const rlimit few = {.rlim_cur = static_cast<rlim_t>(taken_[0].get()) + 8,
                        .rlim_max = before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (UniqueFd fd(eventfd(0, EFD_CLOEXEC)); fd.valid(); fd.reset(eventfd(0, EFD_CLOEXEC)))
      taken_.push_back(std::move(fd));
    EXPECT_EQ(errno, EMFILE);
  }
  ~AllDescriptorsTaken() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_ = {};
  std::vector<UniqueFd> taken_;
};

TEST_F(TcpDoorTest, WithoutADescriptorStrangersKeepNobodyOut) {
  if (kSanitized) GTEST_SKIP() << "to look at an object it opens a pipe";
  const UniqueFd first = Call(door_.address()), second = Call(door_.address());
  const UniqueFd member = Call(door_.address());
  Say(member, TcpHello{.src = 1, .token = door_.token()});
  const AllDescriptorsTaken none_is_left;
  Visit();
  clock_.Advance(TcpDoor::kYouthNs - 1);
  EXPECT_FALSE(door_.overdue());
  EXPECT_FALSE(IsClosed(first)) << "it is new";
  clock_.Advance(1);
  door_.Visit(&guests_);
  EXPECT_TRUE(EndsClosed(first));
  EXPECT_FALSE(IsClosed(second));
  EXPECT_TRUE(guests_.empty());
  clock_.Advance(TcpDoor::kYouthNs);
  door_.Visit(&guests_);
  EXPECT_TRUE(EndsClosed(second));
  ASSERT_EQ(guests_.size(), 1u);
  EXPECT_EQ(guests_[0].src, 1);
  clock_.Advance(3600 * kNsPerSecond);
  door_.Visit(&guests_);
  EXPECT_EQ(door_.short_for_ns(), 0) << "nobody knocks";
}

// The member has taken the last place there was.
TEST_F(TcpDoorTest, IsShortWhereNoStrangerCanMakeRoom) {
  if (kSanitized) GTEST_SKIP() << "to look at an object it opens a pipe";
  const UniqueFd member = Call(door_.address());
  Say(member, TcpHello{.src = 1, .token = door_.token()});
  const UniqueFd one_more = Call(door_.address());
  const AllDescriptorsTaken none_is_left;
  Visit();
  EXPECT_EQ(guests_.size(), 1u);
  clock_.Advance(kNsPerSecond);
  EXPECT_EQ(door_.short_for_ns(), kNsPerSecond);
  guests_.clear();
  door_.Visit(&guests_);
  EXPECT_EQ(door_.short_for_ns(), 0) << "the place of who has left serves the next one";
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
