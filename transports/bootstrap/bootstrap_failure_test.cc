// How a start fails, over real sockets: ranks that do not come, die, stand still or cannot go on.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "transports/bootstrap/bootstrap.h"
#include "transports/bootstrap/bootstrap_job.h"
#include "transports/bootstrap/rendezvous_guest.h"

namespace gradwire {
namespace {

using testing::HasSubstr;

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
  EXPECT_THAT(result.status().ToString(), HasSubstr("Connection refused"));
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

TEST(BootstrapFailure, RankThatDiesDuringTheStartIsNamedOnAllAtOnce) {
  BootstrapJob job(4);
  const int64_t begin = SteadyClock().NowNs();
  job.Start(0);
  ManualGuest one(&job, 1, 4), two(&job, 2, 4);
  one.Join();
  two.Join();
  two.Die();
  job.Join();
  const Status told = one.RunToEnd();
  EXPECT_LT(SteadyClock().NowNs() - begin, kNsPerSecond);
  for (const Status& status : {job.status(0), told}) {
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
constexpr auto kStill = std::chrono::nanoseconds(3 * kShortNs);

TEST(BootstrapLiveness, WhoWaitsForOthersIsHeard) {
  BootstrapJob job(3);
  const auto impatient = [](BootstrapOptions* o) { o->liveness = kImpatient; };
  job.Start(0, impatient);
  job.Start(1, impatient);
  std::this_thread::sleep_for(kStill);
  job.Start(2, impatient);
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
        while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
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
  job.Join();
}

TEST(BootstrapLiveness, ASilentGuestIsNamed) { ExpectNamed(1); }
TEST(BootstrapLiveness, ASilentHostIsNamed) { ExpectNamed(0); }

}  // namespace
}  // namespace gradwire
