// The start over real sockets: who is let in, and what all ranks then know. How it fails is in
// bootstrap_failure_test.cc.
#include "transports/bootstrap/bootstrap.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "transports/bootstrap/bootstrap_job.h"

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

class BootstrapWorld : public testing::TestWithParam<int> {};

TEST_P(BootstrapWorld, AllRanksGetTheRosterAndTheSettings) {
  const int n = GetParam();
  BootstrapJob job(n);
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
  BootstrapJob job(4);
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
  BootstrapJob job(3);
  for (const int r : {2, 1}) job.Start(r);
  job.Start(0);
  job.Join();
  ExpectStarted(&job, 3);
}

TEST(Bootstrap, ConnectionThatLostAPartOfAMessageIsMadeAnew) {
  BootstrapJob job(2);
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
  BootstrapJob job(2);
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

// Time stands still: who waited for a bound would wait for ever. Rank 1 comes late and is told,
// too.
TEST(Bootstrap, WorldSizesThatDifferAreToldOnBothSidesAtOnce) {
  const ManualClock clock(kNsPerSecond);
  BootstrapJob job(3);
  job.Start(0, [&](BootstrapOptions* o) { o->clock = &clock; });
  job.Start(2, [&](BootstrapOptions* o) { o->clock = &clock, o->world_size = 4; });
  job.Join(2);
  job.Start(1, [&](BootstrapOptions* o) { o->clock = &clock; });
  job.Join();
  EXPECT_EQ(job.status(1).code(), gwMismatch) << job.status(1).ToString();
  EXPECT_EQ(job.status(1).detail().field, "world size");
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

// Also the rank that agrees with rank 0 hears of it. All do before any time has passed.
TEST(Bootstrap, VersionsThatDifferAreToldToAll) {
  constexpr int kOddVersion = 12345;
  const std::string common = fmt::format("{}.{}.{}", GW_MAJOR, GW_MINOR, GW_PATCH);
  for (int odd = 0; odd < 3; ++odd) {
    const ManualClock clock(kNsPerSecond);
    BootstrapJob job(3);
    for (int r = 0; r < 3; ++r) {
      job.Start(r, [&](BootstrapOptions* o) {
        o->clock = &clock;
        if (r == odd) o->library_version = kOddVersion;
      });
    }
    job.Join();
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
  BootstrapJob job(2);
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
  BootstrapJob job(3);
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

TEST(Bootstrap, StrangersChangeNothing) {
  BootstrapJob job(3);
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

// A rank may leave as soon as it is through, so by then all must have what they need of it.
TEST(Bootstrap, NoRankReturnsBeforeAllHaveUsedTheRoster) {
  constexpr int kRanks = 4;
  BootstrapJob job(kRanks);
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

}  // namespace
}  // namespace gradwire
