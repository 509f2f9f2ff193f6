// Ranks as processes that are killed and stopped: every survivor must name the same rank, in time.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "base/wake_fd.h"
#include "transports/bootstrap/bootstrap.h"
#include "transports/control/control_plane.h"

namespace gradwire {
namespace {

constexpr int64_t kPatienceNs = 60 * kNsPerSecond;

// What a rank reports to the test, one atomic write each.
struct Report {
  enum Kind : int32_t { kReady, kLost, kFailed } kind;
  int32_t rank;
  int32_t lost;
  int32_t silent;  // 1: by the heartbeat, 0: by the socket
  int64_t at_ns;
};

// The body of a rank's process; never returns.
class RankProcess : private ControlSink {
 public:
  RankProcess(BootstrapOptions options, LivenessOptions liveness, int reports, int commands)
      : rank_(options.rank), reports_(reports), commands_(commands) {
    if (const Status opened = arrivals_.Open(); !opened.ok()) Fail(opened);
    const ControlNodeOptions node{.rank = options.rank,
                                  .world_size = options.world_size,
                                  .job = options.job,
                                  .liveness = liveness};
    StatusOr<BootstrapResult> started = Bootstrap(std::move(options));
    if (!started.ok()) Fail(started.status());
    ControlPlaneOptions plane{.node = node, .on_arrival = [this] { arrivals_.Wake(); }};
    StatusOr<std::unique_ptr<ControlPlane>> made =
        ControlPlane::Start(std::move(plane), std::move(started->links));
    if (!made.ok()) Fail(made.status());
    plane_ = std::move(*made);
  }

  // A child as a loader of data is one: it lives until the test closes the command pipe.
  void ForkAChild() const {
    if (fork() != 0) return;
    char none;
    (void)!read(commands_, &none, 1);
    _exit(0);
  }

  // Until the test closes the command pipe.
  [[noreturn]] void Run() {
    Tell({Report::kReady, rank_, -1, 0, 0});
    for (;;) {
      pollfd polled[] = {{arrivals_.get(), POLLIN, 0}, {commands_, POLLIN, 0}};
      (void)poll(polled, 2, -1);
      arrivals_.Take();
      plane_->Poll(this);
      if (polled[1].revents != 0) _exit(0);
    }
  }

 private:
  void OnControl(const ControlMessage&) override {}
  void OnRankLost(int rank, const Status& cause) override {
    const bool silent = cause.ToString().find("silent") != std::string::npos;
    Tell({Report::kLost, rank_, rank, silent, SteadyClock().NowNs()});
  }
  void Tell(const Report& report) { (void)!write(reports_, &report, sizeof(report)); }
  [[noreturn]] void Fail(const Status& status) {
    fprintf(stderr, "rank %d: %s\n", rank_, status.ToString().c_str());
    Tell({Report::kFailed, rank_, -1, 0, 0});
    _exit(1);
  }

  int rank_, reports_, commands_;
  WakeFd arrivals_;
  std::unique_ptr<ControlPlane> plane_;
};

class ProcessJob {
 public:
  ProcessJob(int world_size, LivenessOptions liveness) : children_(world_size) {
    Pipe reports, commands;
    EXPECT_TRUE(reports.Open().ok() && commands.Open().ok());
    UniqueFd listener = std::move(*Listen(*ResolveHost({"127.0.0.1", 0})));
    const int port = BoundAddress(listener.get())->port();
    for (int r = 0; r < world_size; ++r) {
      children_[r] = fork();
      if (children_[r] != 0) continue;
      commands.write_end.reset();
      BootstrapOptions options{.rank = r,
                               .world_size = world_size,
                               .root = {"127.0.0.1", port},
                               .secret = "a secret",
                               .job = 5};
      if (r == 0) options.listener = std::move(listener);
      listener.reset();
      RankProcess rank(std::move(options), liveness, reports.write_end.get(),
                       commands.read_end.get());
      rank.ForkAChild();
      rank.Run();
    }
    reports_ = std::move(reports.read_end);
    commands_ = std::move(commands.write_end);
  }
  ~ProcessJob() {
    commands_.reset();
    for (const pid_t child : children_) {
      kill(child, SIGKILL);  // also where it is stopped
      waitpid(child, nullptr, 0);
    }
  }

  // The next `count` reports of one kind; fewer after the patience.
  std::vector<Report> Await(Report::Kind kind, size_t count) {
    std::vector<Report> found;
    const Deadline deadline = Deadline::After(SteadyClock(), kPatienceNs);
    while (found.size() < count) {
      pollfd polled{reports_.get(), POLLIN, 0};
      if (poll(&polled, 1, deadline.PollTimeoutMs(SteadyClock())) <= 0) break;
      Report report;
      if (read(reports_.get(), &report, sizeof(report)) != sizeof(report)) break;
      if (report.kind == kind) found.push_back(report);
    }
    return found;
  }

  void Signal(int rank, int signal) const { kill(children_[rank], signal); }

 private:
  std::vector<pid_t> children_;
  UniqueFd reports_, commands_;
};

struct Death {
  int world_size;
  int victim;
};
std::vector<Death> Deaths() { return {{2, 0}, {2, 1}, {4, 0}, {4, 1}, {4, 3}, {8, 0}, {8, 5}}; }

TEST(StarProcess, KilledRankIsNamedByAllWithinSeconds) {
  int64_t worst_ns = 0;
  for (const Death& d : Deaths()) {
    SCOPED_TRACE(testing::Message() << "rank " << d.victim << " of " << d.world_size);
    ProcessJob job(d.world_size, {});
    ASSERT_EQ(job.Await(Report::kReady, d.world_size).size(), static_cast<size_t>(d.world_size));
    const int64_t killed_ns = SteadyClock().NowNs();
    job.Signal(d.victim, SIGKILL);
    const std::vector<Report> lost = job.Await(Report::kLost, d.world_size - 1);
    ASSERT_EQ(lost.size(), static_cast<size_t>(d.world_size - 1));
    for (const Report& report : lost) {
      EXPECT_EQ(report.lost, d.victim) << "rank " << report.rank;
      EXPECT_EQ(report.silent, 0) << "rank " << report.rank;
      EXPECT_LT(report.at_ns - killed_ns, 3 * kNsPerSecond);
      worst_ns = std::max(worst_ns, report.at_ns - killed_ns);
    }
  }
  RecordProperty("worst_us", std::to_string(worst_ns / kNsPerUs));
  printf("last survivor knew after at most %.1f ms\n", static_cast<double>(worst_ns) / 1e6);
}

TEST(StarProcess, StoppedRankIsNamedWithinTheBoundAndIsToldWhenItGoesOn) {
  const LivenessOptions liveness{.period_ns = 60 * kNsPerMs, .bound_ns = 300 * kNsPerMs};
  for (const Death& d : Deaths()) {
    SCOPED_TRACE(testing::Message() << "rank " << d.victim << " of " << d.world_size);
    ProcessJob job(d.world_size, liveness);
    ASSERT_EQ(job.Await(Report::kReady, d.world_size).size(), static_cast<size_t>(d.world_size));
    const int64_t stopped_ns = SteadyClock().NowNs();
    job.Signal(d.victim, SIGSTOP);
    const std::vector<Report> lost = job.Await(Report::kLost, d.world_size - 1);
    ASSERT_EQ(lost.size(), static_cast<size_t>(d.world_size - 1));
    for (const Report& report : lost) {
      EXPECT_EQ(report.lost, d.victim) << "rank " << report.rank;
      EXPECT_EQ(report.silent, 1) << "rank " << report.rank;
      EXPECT_GE(report.at_ns - stopped_ns, 200 * kNsPerMs);
      EXPECT_LT(report.at_ns - stopped_ns, 2300 * kNsPerMs);
    }
    if (d.victim == 0) continue;
    job.Signal(d.victim, SIGCONT);
    const std::vector<Report> evicted = job.Await(Report::kLost, 1);
    ASSERT_EQ(evicted.size(), 1u);
    EXPECT_EQ(evicted[0].rank, d.victim);
    EXPECT_EQ(evicted[0].lost, d.victim) << "must learn that it is out";
  }
}

}  // namespace
}  // namespace gradwire
