// How a start fails, over real sockets: ranks that do not come, die, stand still or cannot go on.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "transports/bootstrap/bootstrap.h"
#include "transports/bootstrap/bootstrap_job.h"
#include "transports/bootstrap/launch_board.h"
#include "transports/bootstrap/rendezvous_guest.h"
#include "transports/control/socket.h"

namespace gradwire {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kShortNs = 700 * kNsPerMs;

TEST(BootstrapFailure, MissingRanksAreNamedOnAllThatJoined) {
  BootstrapJob job(5);
  for (const int r : {0, 2, 3}) {
    job.Start(r, [](BootstrapOptions* o) { o->timeout_ns = kShortNs; });
  }
  job.Join();
  for (const int r : {0, 2, 3}) {
    EXPECT_EQ(job.status(r).code(), gwTimeout);
    EXPECT_THAT(job.status(r).ToString(), HasSubstr("ranks 1, 4 of 5 did not join within 0.7 s"));
    EXPECT_EQ(job.status(r).detail().rank, r);
  }
}

TEST(BootstrapFailure, UnreachableRankZeroIsNamedWithTheReason) {
  BootstrapJob job(2);
  BootstrapOptions options = job.Options(1);
  (void)job.Options(0);  // takes the listener away and closes it
  options.timeout_ns = kShortNs;
  const StatusOr<BootstrapResult> result = Bootstrap(std::move(options));
  EXPECT_EQ(result.status().code(), gwTimeout);
  EXPECT_EQ(result.status().detail().peer, 0);
  EXPECT_THAT(result.status().ToString(), HasSubstr("could not be reached: nobody listens"));
}

// A rank that has joined waits as long as rank 0 does, at most twice its own time.
TEST(BootstrapFailure, WhoHasJoinedTellsHowLongItHasWaited) {
  BootstrapJob job(3);
  std::atomic<bool> enough = false;
  job.Start(0, [&](BootstrapOptions* o) { o->cancelled = &enough; });
  job.Start(1, [](BootstrapOptions* o) { o->timeout_ns = kShortNs; });
  job.Join(1);
  enough = true;
  job.Join();
  EXPECT_EQ(job.status(1).code(), gwTimeout);
  EXPECT_THAT(job.status(1).ToString(), HasSubstr("awaited the roster from rank 0 (after "));
  EXPECT_THAT(job.status(1).ToString(), Not(HasSubstr("(after 0.7 s)")));
}

// As by a unique id, whose rank 0 has listened all the time.
TEST(BootstrapFailure, ARankZeroThatListensNoMoreIsNotWaitedFor) {
  BootstrapJob job(2);
  BootstrapOptions options = job.Options(1);
  (void)job.Options(0);
  options.root_listens = true;
  const int64_t begin_ns = SteadyClock().NowNs();
  const StatusOr<BootstrapResult> result = Bootstrap(std::move(options));
  EXPECT_LT(SteadyClock().NowNs() - begin_ns, kNsPerSecond);
  EXPECT_EQ(result.status().code(), gwPeerLost);
  EXPECT_EQ(result.status().detail().peer, 0);
  EXPECT_EQ(result.status().detail().rank, 1);
  EXPECT_THAT(result.status().ToString(), HasSubstr("rank 0 no longer listens at"));
}

// As `gradwire run` tells it, at rank 0 and at a guest that waits for it.
TEST(BootstrapFailure, ARankThatHasEndedIsNotWaitedFor) {
  for (const int ended : {0, 2}) {
    BootstrapJob job(4);
    StatusOr<LaunchBoard> board = LaunchBoard::Make(4);
    ASSERT_TRUE(board.ok());
    const int64_t begin_ns = SteadyClock().NowNs();
    for (int r = 0; r < 4; ++r) {
      if (r != ended) job.Start(r, [&](BootstrapOptions* o) { o->launch_board = board->Text(); });
    }
    board->NoteKilled(ended, SIGKILL);
    job.Join();
    EXPECT_LT(SteadyClock().NowNs() - begin_ns, 3 * kNsPerSecond);
    for (int r = 0; r < 4; ++r) {
      if (r == ended) continue;
      EXPECT_EQ(job.status(r).code(), gwPeerLost);
      EXPECT_EQ(job.status(r).detail().peer, ended);
      EXPECT_EQ(job.status(r).detail().rank, r);
      EXPECT_THAT(job.status(r).ToString(),
                  HasSubstr(fmt::format("rank {} was killed by signal 9 (Killed) before it had "
                                        "joined",
                                        ended)));
    }
  }
}

// A guest that the test drives step by step.
class ManualGuest {
 public:
  ManualGuest(BootstrapJob* job, int rank, int world_size)
      : fd_(job->Connect()),
        guest_({.me = {.rank = rank,
                       .world_size = world_size,
                       .job = job->contents().job,
                       .secret = job->contents().secret}}) {}

  // Proven, and the blob is under way.
  void Join() {
    while (guest_.host_deadline_ns() == 0) {
      Write();
      Read();
    }
    Write();
  }
  Status RunToEnd() {
    while (guest_.outcome() == RendezvousGuest::Outcome::kPending) {
      Read();
      Write();
    }
    return guest_.status();
  }
  void Die() { fd_.reset(); }

 private:
  // Where rank 0 is gone already, reading tells.
  void Write() {
    std::string out = guest_.TakeOutput();
    size_t offset = 0;
    (void)WriteSome(fd_.get(), &out, &offset);
  }
  void Read() {
    std::byte buffer[4096];
    const ssize_t n = recv(fd_.get(), buffer, sizeof(buffer), 0);
    if (n <= 0) return guest_.OnClosed();
    guest_.OnBytes({buffer, n}, SteadyClock().NowNs());
  }
  UniqueFd fd_;
  RendezvousGuest guest_;
};

TEST(BootstrapFailure, CancelledRankZeroEndsSoonAndTellsTheOthersWhy) {
  BootstrapJob job(4);
  std::atomic<bool> cancelled{false};
  job.Start(0, [&](BootstrapOptions* o) { o->cancelled = &cancelled; });
  ManualGuest two(&job, 2, 4);
  two.Join();
  const int64_t begin = SteadyClock().NowNs();
  cancelled = true;
  job.Join();
  EXPECT_LT(SteadyClock().NowNs() - begin, kNsPerSecond);
  EXPECT_EQ(job.status(0).code(), gwRevoked);
  const Status told = two.RunToEnd();
  EXPECT_EQ(told.code(), gwRevoked) << told.ToString();
  EXPECT_THAT(told.ToString(), HasSubstr("rank 0 gave up"));
}

TEST(BootstrapFailure, CancelledGuestEndsSoon) {
  BootstrapJob job(3);
  std::atomic<bool> cancelled{true};
  job.Start(1, [&](BootstrapOptions* o) { o->cancelled = &cancelled; });
  job.Join();
  EXPECT_EQ(job.status(1).code(), gwRevoked);
}

// Before any time has passed for rank 0. Rank 3 comes late.
TEST(BootstrapFailure, RankThatDiesDuringTheStartIsNamedOnAllAtOnce) {
  const ManualClock clock(kNsPerSecond);
  BootstrapJob job(4);
  job.Start(0, [&](BootstrapOptions* o) { o->clock = &clock; });
  ManualGuest one(&job, 1, 4), two(&job, 2, 4);
  one.Join();
  two.Join();
  two.Die();
  const Status told = one.RunToEnd();
  job.Start(3);
  job.Join();
  for (const Status& status : {job.status(0), told, job.status(3)}) {
    EXPECT_EQ(status.code(), gwPeerLost) << status.ToString();
    EXPECT_EQ(status.detail().peer, 2);
  }
}

TEST(BootstrapFailure, SettingsThatFailFailEverywhere) {
  BootstrapJob job(3);
  job.StartAll([](BootstrapOptions* o) {
    o->choose_settings = [](const std::vector<std::string>&) {
      return StatusOr<std::string>(Status(gwTransportUnavailable, "no common transport"));
    };
  });
  job.Join();
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(job.status(r).code(), gwTransportUnavailable);
    EXPECT_THAT(job.status(r).ToString(), HasSubstr("no common transport"));
  }
}

TEST(BootstrapFailure, ARosterThatOneRankCannotUseFailsAll) {
  for (int unable : {0, 2}) {
    BootstrapJob job(3);
    job.StartAll([unable](BootstrapOptions* o) {
      o->use_roster = [unable, rank = o->rank](const Roster&) {
        return rank == unable ? Status(gwTransportUnavailable, "no way to rank 1") : Status();
      };
    });
    job.Join();
    for (int r = 0; r < 3; ++r) {
      EXPECT_EQ(job.status(r).code(), gwTransportUnavailable) << job.status(r).ToString();
      EXPECT_THAT(job.status(r).ToString(),
                  HasSubstr(fmt::format("rank {} is not ready: no way to rank 1", unable)));
      EXPECT_EQ(job.status(r).detail().rank, r);
      EXPECT_EQ(job.status(r).detail().peer, unable);
    }
  }
}

// ---- ranks that stand still ----

constexpr LivenessOptions kImpatient = {.period_ns = 50 * kNsPerMs, .bound_ns = kShortNs};

// The time of ranks 0 and 1. It goes on whenever both have looked at it so often that each of them
// has been through whole turns: neither falls behind, however busy the machine is.
class SharedTime {
 public:
  static constexpr LivenessOptions kLiveness = {.period_ns = 2 * kNsPerMs,
                                                .bound_ns = 40 * kNsPerMs};

  int64_t LookOf(int rank) {
    const std::lock_guard lock(mu_);
    ++looks_[rank];
    if (now_ns_ < kEndNs && std::min(looks_[0], looks_[1]) >= kLooks) {
      now_ns_ += kLiveness.bound_ns / 4;
      looks_ = {};
      if (now_ns_ >= kEndNs) over_.notify_all();
    }
    return now_ns_;
  }
  // False: a rank looks no more.
  bool AwaitEnd() {
    std::unique_lock lock(mu_);
    return over_.wait_for(lock, std::chrono::seconds(30), [&] { return now_ns_ >= kEndNs; });
  }

 private:
  static constexpr int kLooks = 20;  // a turn takes up to five
  static constexpr int64_t kBeginNs = kNsPerSecond, kEndNs = kBeginNs + 3 * kLiveness.bound_ns;

  std::mutex mu_;
  std::condition_variable over_;
  int64_t now_ns_ = kBeginNs;
  std::array<int, 2> looks_ = {};
};

class ClockOfRank final : public Clock {
 public:
  ClockOfRank(SharedTime* time, int rank) : time_(time), rank_(rank) {}
  int64_t NowNs() const override { return time_->LookOf(rank_); }

 private:
  SharedTime* const time_;  // outlives this
  const int rank_;
};

TEST(BootstrapLiveness, WhoWaitsForOthersIsHeard) {
  SharedTime shared;
  const ClockOfRank clocks[] = {{&shared, 0}, {&shared, 1}};
  std::atomic<bool> stuck{false};
  BootstrapJob job(3);
  for (const int r : {0, 1}) {
    job.Start(r, [&](BootstrapOptions* o) {
      o->liveness = SharedTime::kLiveness;
      o->clock = &clocks[r];
      o->cancelled = &stuck;
    });
  }
  stuck = !shared.AwaitEnd();
  ASSERT_FALSE(stuck);
  job.Start(2);
  job.Join();
  ExpectStarted(&job, 3);
}

// `rank` is silent while it opens its transport.
void ExpectNamed(int rank) {
  BootstrapJob job(3);
  std::atomic<bool> over = false;
  for (int r = 0; r < 3; ++r) {
    job.Start(r, [&](BootstrapOptions* o) {
      o->liveness = kImpatient;
      if (r != rank) return;
      o->use_roster = [&](const Roster&) {
        over.wait(false);
        return Status();
      };
    });
  }
  for (int r = 2; r >= 0; --r) {
    if (r == rank) continue;
    job.Join(r);
    EXPECT_EQ(job.status(r).code(), gwPeerLost) << job.status(r).ToString();
    EXPECT_EQ(job.status(r).detail().peer, rank) << job.status(r).ToString();
    EXPECT_THAT(job.status(r).ToString(), HasSubstr("silent for"));
  }
  over = true;
  over.notify_all();
  job.Join();
}

TEST(BootstrapLiveness, ASilentGuestIsNamed) { ExpectNamed(1); }
TEST(BootstrapLiveness, ASilentHostIsNamed) { ExpectNamed(0); }

}  // namespace
}  // namespace gradwire
