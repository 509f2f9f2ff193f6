// The control plane over socket pairs; ranks are objects of one process, each with its control
// thread.
#include "transports/control/control_plane.h"
#include "transports/control/socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gradwire {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kPatienceNs = 20 * kNsPerSecond;

std::pair<UniqueFd, UniqueFd> SocketPair() {
  int fds[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  EXPECT_TRUE(PrepareStream(fds[0]).ok() && PrepareStream(fds[1]).ok());
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

StarLink LinkTo(int peer, UniqueFd fd) {
  StarLink link{.peer = peer, .fd = std::move(fd)};
  link.reader.AllowBodies();
  return link;
}

// One rank: its plane, and what it was told so far.
class Rank : private ControlSink {
 public:
  void Start(ControlNodeOptions node, std::vector<StarLink> links) {
    ControlPlaneOptions options{.node = node, .on_arrival = [this] {
                                  const std::lock_guard lock(mutex_);
                                  arrived_ = true;
                                  wake_.notify_all();
                                }};
    plane = std::move(*ControlPlane::Start(std::move(options), std::move(links)));
  }

  // Polls until `done`, false after the patience.
  template <typename Done>
  bool Until(Done done) {
    const Deadline deadline = Deadline::After(SteadyClock(), kPatienceNs);
    for (;;) {
      plane->Poll(this);
      if (done()) return true;
      std::unique_lock lock(mutex_);
      const auto left = std::chrono::nanoseconds(deadline.RemainingNs(SteadyClock()));
      if (!wake_.wait_for(lock, left, [&] { return std::exchange(arrived_, false); })) return false;
    }
  }
  template <typename T>
  int Count() const {
    return static_cast<int>(
        std::count_if(messages.begin(), messages.end(),
                      [](const ControlMessage& m) { return m.get<T>() != nullptr; }));
  }

  std::vector<ControlMessage> messages;
  std::vector<int> lost;
  std::vector<std::string> causes;

 private:
  void OnControl(const ControlMessage& message) override { messages.push_back(message); }
  void OnRankLost(int rank, const Status& cause) override {
    lost.push_back(rank);
    causes.push_back(cause.ToString());
  }
  std::mutex mutex_;
  std::condition_variable wake_;
  bool arrived_ = false;

 public:
  std::unique_ptr<ControlPlane> plane;  // last: its thread uses the rest
};

class Star {
 public:
  explicit Star(int world_size, LivenessOptions liveness = {}) : ranks(world_size) {
    std::vector<StarLink> hub;
    for (int r = 1; r < world_size; ++r) {
      auto [a, b] = SocketPair();
      hub.push_back(LinkTo(r, std::move(a)));
      std::vector<StarLink> link;
      link.push_back(LinkTo(0, std::move(b)));
      ranks[r].Start({.rank = r, .world_size = world_size, .job = 7, .liveness = liveness},
                     std::move(link));
    }
    ranks[0].Start({.rank = 0, .world_size = world_size, .job = 7, .liveness = liveness},
                   std::move(hub));
  }
  std::vector<Rank> ranks;
};

// Rank 0 with one raw socket as its only peer.
struct HalfStar {
  HalfStar() {
    auto [a, b] = SocketPair();
    raw = std::move(b);
    std::vector<StarLink> links;
    links.push_back(LinkTo(1, std::move(a)));
    hub.Start({.rank = 0, .world_size = 2, .job = 7}, std::move(links));
  }
  Rank hub;
  UniqueFd raw;
};

TEST(ControlPlane, VotesGoUpAndResultsComeDown) {
  Star star(5);
  for (uint64_t step = 0; step < 200; ++step) {
    for (int r = 1; r < 5; ++r) {
      const ControlFields vote = VoteFields{.step = step, .ok = 1};
      ASSERT_TRUE(star.ranks[r].plane->SendTo(0, {.fields = vote}).ok());
    }
    const int votes = static_cast<int>(step + 1) * 4;
    ASSERT_TRUE(star.ranks[0].Until([&] { return star.ranks[0].Count<VoteFields>() == votes; }));
    ASSERT_TRUE(star.ranks[0].plane->Broadcast({.fields = ResultFields{.step = step}}).ok());
    for (int r = 1; r < 5; ++r) {
      Rank& rank = star.ranks[r];
      ASSERT_TRUE(
          rank.Until([&] { return rank.Count<ResultFields>() == static_cast<int>(step + 1); }));
    }
  }
  for (const Rank& r : star.ranks) EXPECT_TRUE(r.lost.empty());
}

TEST(ControlPlane, RelaysBetweenOthersAndCarriesBodies) {
  Star star(3);
  const std::string body(kMaxControlBodyBytes, 'b');
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(star.ranks[1].plane->SendTo(2, {.fields = VoteFields{}, .body = body}).ok());
  }
  Rank& two = star.ranks[2];
  ASSERT_TRUE(two.Until([&] { return two.Count<VoteFields>() == 20; }));
  for (const ControlMessage& m : two.messages) {
    if (m.get<VoteFields>()) {
      EXPECT_EQ(m.body, body);
    }
  }
}

TEST(ControlPlane, ManyThreadsMaySendAtOnce) {
  Star star(3);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 250; ++i) {
        EXPECT_TRUE(star.ranks[1].plane->Broadcast({.fields = VoteFields{}}).ok());
        star.ranks[1].plane->SetProgress({.turn = 1, .counters = {.submitted = 2}});
        star.ranks[1].plane->SetEpoch(3);
      }
    });
  }
  for (const int r : {0, 2}) {
    ASSERT_TRUE(star.ranks[r].Until([&] { return star.ranks[r].Count<VoteFields>() == 1000; }));
  }
  for (std::thread& t : threads) t.join();
}

TEST(ControlPlane, ShutdownWithoutByeIsDeathByTheSameNameEverywhere) {
  for (const int victim : {0, 2}) {
    Star star(4);
    star.ranks[victim].plane->Shutdown();
    for (int r = 0; r < 4; ++r) {
      if (r == victim) continue;
      Rank& rank = star.ranks[r];
      ASSERT_TRUE(rank.Until([&] { return !rank.lost.empty(); }));
      EXPECT_THAT(rank.lost, ElementsAre(victim));
      // The kernel resets a connection that is closed before its last heartbeat was read.
      EXPECT_THAT(rank.causes[0],
                  AnyOf(HasSubstr("connection closed"), HasSubstr("Connection reset by peer")));
    }
  }
}

TEST(ControlPlane, ByeInAnyOrderLosesNobody) {
  std::vector<int> order = {0, 1, 2, 3};
  do {
    Star star(4);
    std::vector<std::thread> threads;
    for (const int r : order) {
      threads.emplace_back([&star, r] {
        EXPECT_TRUE(star.ranks[r].plane->GracefulBye(kPatienceNs).ok()) << "rank " << r;
        star.ranks[r].plane->Shutdown();
      });
    }
    for (std::thread& t : threads) t.join();
    for (Rank& rank : star.ranks) {
      rank.Until([] { return true; });
      EXPECT_TRUE(rank.lost.empty());
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(ControlPlane, OthersGoOnAfterOneHasLeft) {
  Star star(4);
  ASSERT_TRUE(star.ranks[1].plane->GracefulBye(kPatienceNs).ok());
  star.ranks[1].plane->Shutdown();
  ASSERT_TRUE(star.ranks[2].plane->Broadcast({.fields = VoteFields{}}).ok());
  for (const int r : {0, 3}) {
    Rank& rank = star.ranks[r];
    ASSERT_TRUE(rank.Until([&] { return rank.Count<VoteFields>() == 1; }));
    EXPECT_EQ(rank.Count<ByeFields>(), 1);
    EXPECT_TRUE(rank.lost.empty());
  }
}

TEST(ControlPlane, WhoLeavesHearsWhoDiedBefore) {
  const auto ExpectLoss = [](const Status& status) {
    EXPECT_EQ(status.code(), gwPeerLost) << status.ToString();
    EXPECT_THAT(status.ToString(), HasSubstr("rank 2"));
  };
  Star star(3);
  std::thread others([&] {
    Rank& witness = star.ranks[1];
    EXPECT_TRUE(witness.Until([&] { return witness.Count<ByeFields>() == 1; }));
    star.ranks[2].plane->Shutdown();
    EXPECT_TRUE(witness.Until([&] { return !witness.lost.empty(); }));
    ExpectLoss(witness.plane->GracefulBye(kPatienceNs));
  });
  ExpectLoss(star.ranks[0].plane->GracefulBye(kPatienceNs));
  others.join();
}

TEST(ControlPlane, HubThatCannotLeaveNamesWhoStays) {
  Star star(4);
  ASSERT_TRUE(star.ranks[2].plane->GracefulBye(kPatienceNs).ok());
  const Status late = star.ranks[0].plane->GracefulBye(kNsPerMs);
  EXPECT_EQ(late.code(), gwTimeout);
  EXPECT_THAT(late.ToString(), HasSubstr("ranks 1, 3 have not left"));
}

TEST(ControlPlane, LeavingWithAReasonTellsIt) {
  Star star(3);
  star.ranks[1].plane->LeaveWith(Status(gwSystemError, "disk full"));
  for (const int r : {0, 2}) {
    Rank& rank = star.ranks[r];
    ASSERT_TRUE(rank.Until([&] { return !rank.lost.empty(); }));
    EXPECT_THAT(rank.lost, ElementsAre(1));
    EXPECT_THAT(rank.causes[0], HasSubstr("disk full"));
  }
}

// Another program of the process may have used up what it may open.
TEST(ControlPlane, WhoCannotBeginTellsWhy) {
  HalfStar star;
  std::vector<StarLink> links;
  links.push_back(LinkTo(0, std::move(star.raw)));
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {.rlim_cur = 2, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto begun =
      ControlPlane::Start({.node = {.rank = 1, .world_size = 2, .job = 7}}, std::move(links));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(begun.status().code(), gwSystemError);
  ASSERT_TRUE(star.hub.Until([&] { return !star.hub.lost.empty(); }));
  EXPECT_THAT(star.hub.lost, ElementsAre(1));
  EXPECT_THAT(star.hub.causes[0], HasSubstr("it left: "));
  EXPECT_THAT(star.hub.causes[0], HasSubstr("Too many open files"));
}

TEST(ControlPlane, DamagedBytesLoseTheirSender) {
  HalfStar half;
  std::string wire = EncodeControl({.src = 1, .dst = 0, .job = 7, .fields = VoteFields{}});
  wire[100] = static_cast<char>(wire[100] ^ 4);
  ASSERT_EQ(send(half.raw.get(), wire.data(), wire.size(), MSG_NOSIGNAL), 256);
  ASSERT_TRUE(half.hub.Until([&] { return !half.hub.lost.empty(); }));
  EXPECT_THAT(half.hub.causes[0], HasSubstr("checksum"));
}

TEST(ControlPlane, WrongSourceJobOrTypeLosesTheirSender) {
  const std::pair<ControlMessage, const char*> cases[] = {
      {{.src = 0, .dst = 0, .job = 7, .fields = VoteFields{}}, "wrong source"},
      {{.src = 1, .dst = 5, .job = 7, .fields = VoteFields{}}, "wrong destination"},
      {{.src = 1, .dst = 0, .job = 8, .fields = VoteFields{}}, "another job"},
      {{.src = 1, .dst = 0, .job = 7, .fields = ReadyFields{}}, "start-up message"},
      {{.src = 1,
        .dst = kAllRanks,
        .job = 7,
        .fields = RevokeFields{.culprit = 9, .scope = RevokeScope::kEpoch}},
       "culprit is no rank"},
  };
  for (const auto& [message, text] : cases) {
    HalfStar half;
    const std::string wire = EncodeControl(message);
    ASSERT_EQ(send(half.raw.get(), wire.data(), wire.size(), MSG_NOSIGNAL), 256);
    ASSERT_TRUE(half.hub.Until([&] { return !half.hub.lost.empty(); })) << text;
    EXPECT_THAT(half.hub.causes[0], HasSubstr(text));
  }
}

TEST(ControlPlane, PeerThatReadsNothingIsLostBeforeMemoryIs) {
  HalfStar half;
  const std::string body(kMaxControlBodyBytes, 'x');
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(half.hub.plane->SendTo(1, {.fields = VoteFields{}, .body = body}).ok());
  }
  ASSERT_TRUE(half.hub.Until([&] { return !half.hub.lost.empty(); }));
  EXPECT_THAT(half.hub.causes[0], HasSubstr("does not take"));
}

TEST(ControlPlane, ShutdownIsBoundedWhateverThePeerDoes) {
  HalfStar half;
  ASSERT_TRUE(half.hub.plane->SendTo(1, {.fields = VoteFields{}}).ok());
  const int64_t begin = SteadyClock().NowNs();
  half.hub.plane->Shutdown();
  half.hub.plane->Shutdown();
  EXPECT_LT(SteadyClock().NowNs() - begin, kNsPerSecond);
  EXPECT_TRUE(half.hub.plane->SendTo(1, {.fields = VoteFields{}}).ok()) << "dropped, not fatal";
}

TEST(ControlPlane, SilenceWithinTheBoundIsNoDeathAndBeyondItIs) {
  // The raw peer never says a word, its socket stays open.
  auto [a, b] = SocketPair();
  std::vector<StarLink> links;
  links.push_back(LinkTo(1, std::move(a)));
  Rank hub;
  const LivenessOptions liveness{.period_ns = 20 * kNsPerMs, .bound_ns = 100 * kNsPerMs};
  const int64_t begin = SteadyClock().NowNs();
  hub.Start({.rank = 0, .world_size = 2, .job = 7, .liveness = liveness}, std::move(links));
  ASSERT_TRUE(hub.Until([&] { return !hub.lost.empty(); }));
  EXPECT_GE(SteadyClock().NowNs() - begin, 100 * kNsPerMs);
  EXPECT_THAT(hub.causes[0], HasSubstr("silent for 1"));
}

TEST(ControlPlane, WorldOfOneNeedsNobody) {
  Rank rank;
  rank.Start({.rank = 0, .world_size = 1, .job = 7}, {});
  EXPECT_TRUE(rank.plane->Broadcast({.fields = VoteFields{}}).ok());
  EXPECT_EQ(rank.plane->SendTo(1, {.fields = VoteFields{}}).code(), gwInvalidArgument);
  EXPECT_TRUE(rank.plane->GracefulBye(kPatienceNs).ok());
}

TEST(ControlPlane, BytesThatTheStartHasReadAreNotForgotten) {
  auto [a, b] = SocketPair();
  std::vector<StarLink> links;
  links.push_back(LinkTo(1, std::move(a)));
  const ControlFields vote = VoteFields{.step = 42};
  links[0].unread = EncodeControl({.src = 1, .dst = 0, .job = 7, .fields = vote});
  Rank hub;
  hub.Start({.rank = 0, .world_size = 2, .job = 7}, std::move(links));
  ASSERT_TRUE(hub.Until([&] { return hub.Count<VoteFields>() == 1; }));
  EXPECT_EQ(hub.messages[0].get<VoteFields>()->step, 42u);
}

}  // namespace
}  // namespace gradwire
