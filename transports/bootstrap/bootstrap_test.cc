// The start over real sockets; ranks are threads.
#include "transports/bootstrap/bootstrap.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "transports/bootstrap/rendezvous_guest.h"
#include "transports/bootstrap/unique_id.h"

namespace {
// After so many more bytes a call of this thread fails once, as where the system has no buffer for
// it.
thread_local std::optional<size_t> sends_until_failure;
}  // namespace

extern "C" ssize_t send(int fd, const void* data, size_t bytes, int flags) {
  if (sends_until_failure == 0) {
    sends_until_failure.reset();
    errno = ENOBUFS;
    return -1;
  }
  if (sends_until_failure) bytes = std::min(bytes, std::exchange(*sends_until_failure, 0));
  return sendto(fd, data, bytes, flags, nullptr, 0);
}

namespace gradwire {
namespace {

using testing::HasSubstr;

constexpr int64_t kShortNs = 700 * kNsPerMs;

// Starts ranks against one listener on loopback and collects how each ended.
class Job {
 public:
  explicit Job(int world_size) : world_size_(world_size) {
    const StatusOr<UniqueId> id = CreateUniqueId({.host = "127.0.0.1"});
    contents_ = *ParseUniqueId(*id);
    listener_ = std::move(*ClaimListener(contents_));
  }
  ~Job() { Join(); }

  BootstrapOptions Options(int rank) {
    BootstrapOptions options{.rank = rank,
                             .world_size = world_size_,
                             .root = contents_.root,
                             .secret = contents_.secret,
                             .job = contents_.job,
                             .blob = "blob of " + std::to_string(rank)};
    if (rank == 0) options.listener = std::move(listener_);
    return options;
  }

  using Change = std::function<void(BootstrapOptions*)>;
  void Start(int rank, const Change& change = {}) { StartAs(rank, rank, change); }
  // The result goes to `slot`, for ranks that exist twice.
  void StartAs(int rank, int slot, const Change& change = {}) {
    auto options = std::make_shared<BootstrapOptions>(Options(rank));
    if (change) change(options.get());
    auto* result = &results_[slot];
    threads_[slot] =
        std::thread([result, options] { result->emplace(Bootstrap(std::move(*options))); });
  }
  void StartAll(const Change& change = {}) {
    for (int r = 0; r < world_size_; ++r) Start(r, change);
  }
  void Join(int slot) { threads_.extract(slot).mapped().join(); }
  void Join() {
    for (auto& [slot, thread] : threads_) thread.join();
    threads_.clear();
  }
  StatusOr<BootstrapResult>& result(int slot) { return *results_[slot]; }
  Status status(int slot) { return results_[slot]->status(); }

  UniqueFd Connect() const {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const StatusOr<SocketAddress> address = ResolveHost(contents_.root);
    EXPECT_EQ(connect(fd.get(), address->get(), address->bytes()), 0);
    return fd;
  }
  const UniqueIdContents& contents() const { return contents_; }

 private:
  int world_size_;
  UniqueIdContents contents_;
  UniqueFd listener_;
  std::map<int, std::optional<StatusOr<BootstrapResult>>> results_;  // by slot; never moves
  std::map<int, std::thread> threads_;
};

void ExpectStarted(Job* job, int world_size) {
  for (int r = 0; r < world_size; ++r) {
    ASSERT_TRUE(job->result(r).ok()) << "rank " << r << ": " << job->status(r).ToString();
    const BootstrapResult& got = *job->result(r);
    ASSERT_EQ(got.roster.blobs.size(), static_cast<size_t>(world_size));
    for (int i = 0; i < world_size; ++i) {
      EXPECT_EQ(got.roster.blobs[i], "blob of " + std::to_string(i));
    }
    EXPECT_EQ(got.links.size(), r == 0 ? static_cast<size_t>(world_size - 1) : 1u);
  }
}

class BootstrapWorld : public testing::TestWithParam<int> {};

TEST_P(BootstrapWorld, AllRanksGetTheRosterAndTheSettings) {
  const int n = GetParam();
  Job job(n);
  job.StartAll([](BootstrapOptions* o) {
    o->choose_settings = [](const std::vector<std::string>& blobs) {
      return StatusOr<std::string>("settings from " + std::to_string(blobs.size()) + " blobs");
    };
  });
  job.Join();
  if (n == 1) {
    ASSERT_TRUE(job.result(0).ok());
    EXPECT_TRUE(job.result(0)->links.empty());
    EXPECT_EQ(job.result(0)->roster.blobs, std::vector<std::string>{"blob of 0"});
  } else {
    ExpectStarted(&job, n);
  }
  for (int r = 0; r < n; ++r) {
    EXPECT_EQ(job.result(r)->roster.settings, "settings from " + std::to_string(n) + " blobs");
  }
}
INSTANTIATE_TEST_SUITE_P(Ranks, BootstrapWorld, testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9));

TEST(Bootstrap, LargeBlobsTravelInParts) {
  Job job(4);
  job.StartAll([](BootstrapOptions* o) { o->blob = std::string(kMaxBlobBytes, 'a' + o->rank); });
  job.Join();
  for (int r = 0; r < 4; ++r) {
    ASSERT_TRUE(job.result(r).ok()) << job.status(r).ToString();
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(job.result(r)->roster.blobs[i], std::string(kMaxBlobBytes, 'a' + i));
    }
  }
}

TEST(Bootstrap, GuestsMayCallBeforeRankZeroListens) {
  Job job(3);
  for (const int r : {2, 1}) job.Start(r);
  job.Start(0);
  job.Join();
  ExpectStarted(&job, 3);
}

TEST(Bootstrap, ConnectionThatLostAPartOfAMessageIsMadeAnew) {
  Job job(2);
  job.Start(0, [](BootstrapOptions* options) {
    options->hello_timeout_ns = 60 * kNsPerSecond;
    options->timeout_ns = 10 * kNsPerSecond;
    options->entropy = [first = true](Bytes out) mutable {
      if (std::exchange(first, false)) sends_until_failure = 100;  // of the hello
      return SystemEntropy(out);
    };
  });
  job.Start(1, [](BootstrapOptions* options) { options->timeout_ns = 10 * kNsPerSecond; });
  job.Join();
  EXPECT_TRUE(job.status(0).ok()) << job.status(0).ToString();
  EXPECT_TRUE(job.status(1).ok()) << job.status(1).ToString();
}

TEST(Bootstrap, WrongSecretIsRefusedAndTheOthersGoOn) {
  Job job(2);
  job.Start(0);
  job.StartAs(1, 2, [](BootstrapOptions* o) { o->secret = "guessed"; });
  job.StartAs(1, 3, [](BootstrapOptions* o) { o->secret.clear(); });
  for (const int slot : {2, 3}) {
    job.Join(slot);
    EXPECT_EQ(job.status(slot).code(), gwUnauthenticated) << job.status(slot).ToString();
    EXPECT_THAT(job.status(slot).ToString(), HasSubstr("GRADWIRE_SECRET"));
  }
  job.Start(1);
  job.Join();
  ExpectStarted(&job, 2);
  EXPECT_EQ(job.result(0)->strangers_rejected, 2);
}

TEST(Bootstrap, WorldSizesThatDifferAreToldOnBothSidesAtOnce) {
  Job job(3);
  const int64_t begin = SteadyClock().NowNs();
  job.Start(0);
  job.Start(2, [](BootstrapOptions* o) { o->world_size = 4; });
  job.Join();
  EXPECT_LT(SteadyClock().NowNs() - begin, kNsPerSecond);
  for (const int r : {0, 2}) {
    const ErrorDetail d = job.status(r).detail();
    EXPECT_EQ(job.status(r).code(), gwMismatch) << job.status(r).ToString();
    EXPECT_EQ(d.field, "world size");
    EXPECT_EQ(d.expected, "3 (rank 0)");
    EXPECT_EQ(d.actual, "4 (rank 2)");
    EXPECT_EQ(d.rank, r);
    EXPECT_EQ(d.peer, 2 - r);
  }
}

// Also the rank that agrees with rank 0 hears of it.
TEST(Bootstrap, VersionsThatDifferAreToldToAll) {
  constexpr int kOddVersion = 12345;
  const std::string common = fmt::format("{}.{}.{}", GW_MAJOR, GW_MINOR, GW_PATCH);
  for (int odd = 0; odd < 3; ++odd) {
    Job job(3);
    const int64_t begin = SteadyClock().NowNs();
    for (int r = 0; r < 3; ++r) {
      job.Start(r, [&](BootstrapOptions* o) {
        if (r == odd) o->library_version = kOddVersion;
      });
    }
    job.Join();
    EXPECT_LT(SteadyClock().NowNs() - begin, kNsPerSecond);
    for (int r = 0; r < 3; ++r) {
      const ErrorDetail d = job.status(r).detail();
      EXPECT_EQ(job.status(r).code(), gwMismatch) << job.status(r).ToString();
      EXPECT_EQ(d.field, "library version");
      EXPECT_EQ(d.rank, r);
      const std::string first = odd == 0 ? "1.23.45" : common;
      EXPECT_EQ(d.expected, first + " (rank 0)") << "rank " << r << ", odd " << odd;
      const std::string second = odd == 0 ? common : "1.23.45";
      EXPECT_THAT(d.actual, HasSubstr(second + " (rank ")) << "rank " << r << ", odd " << odd;
      if (odd > 0) {
        EXPECT_EQ(d.actual, fmt::format("1.23.45 (rank {})", odd)) << "rank " << r;
      }
    }
  }
}

TEST(Bootstrap, AnotherJobsRankIsTurnedAwayWithoutHarm) {
  Job job(2);
  job.Start(0);
  job.StartAs(1, 2, [](BootstrapOptions* o) { o->job += 1; });
  job.Join(2);
  job.Start(1);
  job.Join();
  ExpectStarted(&job, 2);
  EXPECT_EQ(job.status(2).code(), gwMismatch);
  EXPECT_EQ(job.status(2).detail().field, "job");
}

TEST(Bootstrap, SecondProcessOfARankIsToldWhereTheFirstIs) {
  Job job(3);
  std::atomic<bool> one_failed{false};
  job.Start(0);
  // Two threads claim to be rank 1; whoever comes second fails while rank 0 still waits for rank 2.
  std::vector<std::optional<StatusOr<BootstrapResult>>> ones(2);
  std::vector<std::thread> threads;
  for (auto& one : ones) {
    auto options = std::make_shared<BootstrapOptions>(job.Options(1));
    threads.emplace_back([&one, &one_failed, options] {
      one.emplace(Bootstrap(std::move(*options)));
      if (!one->ok()) one_failed = true;
      one_failed.notify_all();
    });
  }
  one_failed.wait(false);
  job.Start(2);
  for (std::thread& t : threads) t.join();
  job.Join();
  const int loser = ones[0]->ok() ? 1 : 0;
  ASSERT_TRUE(ones[1 - loser]->ok()) << ones[1 - loser]->status().ToString();
  const Status told = ones[loser]->status();
  EXPECT_EQ(told.code(), gwInvalidUsage);
  EXPECT_THAT(told.ToString(), HasSubstr("rank 1 has joined from 127.0.0.1:"));
  EXPECT_THAT(told.ToString(), HasSubstr("a second one called from 127.0.0.1:"));
  for (const int r : {0, 2}) EXPECT_TRUE(job.result(r).ok()) << job.status(r).ToString();
}

TEST(Bootstrap, MissingRanksAreNamedOnAllThatJoined) {
  Job job(5);
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

TEST(Bootstrap, UnreachableRankZeroIsNamedWithTheReason) {
  Job job(2);
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
  ManualGuest(Job* job, int rank, int world_size)
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

TEST(Bootstrap, CancelledRankZeroEndsSoonAndTellsTheOthersWhy) {
  Job job(4);
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

TEST(Bootstrap, CancelledGuestEndsSoon) {
  Job job(3);
  std::atomic<bool> cancelled{true};
  job.Start(1, [&](BootstrapOptions* o) { o->cancelled = &cancelled; });
  job.Join();
  EXPECT_EQ(job.status(1).code(), gwRevoked);
}

TEST(Bootstrap, RankThatDiesDuringTheStartIsNamedOnAllAtOnce) {
  Job job(4);
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

TEST(Bootstrap, StrangersChangeNothing) {
  Job job(3);
  std::vector<UniqueFd> held;
  for (int i = 0; i < 100; ++i) {
    UniqueFd fd = job.Connect();
    const std::string garbage(i % 400, static_cast<char>('A' + i % 26));
    ASSERT_EQ(send(fd.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(garbage.size()));
    if (i % 2 == 0) held.push_back(std::move(fd));  // silent ones stay open
  }
  job.StartAll();
  job.Join();
  ExpectStarted(&job, 3);
  EXPECT_GT(job.result(0)->strangers_rejected, 0);
  // The port is closed after the start.
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const StatusOr<SocketAddress> address = ResolveHost(job.contents().root);
  EXPECT_NE(connect(fd.get(), address->get(), address->bytes()), 0);
}

TEST(Bootstrap, SettingsThatFailFailEverywhere) {
  Job job(3);
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

// A rank may leave as soon as it is through, so by then all must have what they need of it.
TEST(Bootstrap, NoRankReturnsBeforeAllHaveUsedTheRoster) {
  constexpr int kRanks = 4;
  Job job(kRanks);
  std::atomic<int> used = 0;
  job.StartAll([&used](BootstrapOptions* o) {
    o->use_roster = [&used](const Roster& roster) {
      EXPECT_EQ(roster.blobs.size(), size_t{kRanks});
      ++used;
      return Status();
    };
  });
  for (int r = 0; r < kRanks; ++r) {
    job.Join(r);
    EXPECT_EQ(used, kRanks) << "rank " << r << " was through";
  }
  ExpectStarted(&job, kRanks);
}

TEST(Bootstrap, ARosterThatOneRankCannotUseFailsAll) {
  for (int unable : {0, 2}) {
    Job job(3);
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
  Job job(3);
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
  Job job(3);
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
