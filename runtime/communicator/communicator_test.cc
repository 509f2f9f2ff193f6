// A communicator whose parts are made by hand.
#include "runtime/communicator/communicator.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "transports/control/message.h"
#include "transports/control/socket.h"
#include "transports/control/tcp_links.h"

namespace gradwire {
namespace {

constexpr uint64_t kJob = 7;

std::unique_ptr<ControlPlane> MakePlane(int rank, int peer, int fd) {
  EXPECT_TRUE(PrepareStream(fd).ok());
  std::vector<StarLink> links;
  links.push_back({.peer = peer, .fd = UniqueFd(fd)});
  links.back().reader.AllowBodies();
  auto plane =
      ControlPlane::Start({.node = {.rank = rank, .world_size = 2, .job = kJob}}, std::move(links));
  EXPECT_TRUE(plane.ok()) << plane.status().ToString();
  return std::move(*plane);
}

// As where a system has none left: while it lives no thread can have a stack as large as it should.
class NoThreads {
 public:
  NoThreads() {
    pthread_attr_t large;
    EXPECT_EQ(pthread_getattr_default_np(&before_), 0);
    EXPECT_EQ(pthread_attr_init(&large), 0);
    EXPECT_EQ(pthread_attr_setstacksize(&large, size_t{1} << 46), 0);
    EXPECT_EQ(pthread_setattr_default_np(&large), 0);
  }
  ~NoThreads() { EXPECT_EQ(pthread_setattr_default_np(&before_), 0); }

 private:
  pthread_attr_t before_;
};

struct Losses final : ControlSink {
  void OnControl(const ControlMessage&) override {}
  void OnRankLost(int rank, const Status& cause) override {
    ranks.push_back(rank);
    why = cause.ToString();
  }
  std::vector<int> ranks;
  std::string why;
};

// Rank 1 of two; the other end of its control plane is `fd`.
CommParts PartsOfRank1(int fd) {
  CommParts parts = {.rank = 1,
                     .world_size = 2,
                     .job = kJob,
                     .agreed = {.slice = DefaultSliceSize(true)},
                     .op_timeout_ns = kNsPerSecond,
                     .abort_timeout_ns = kNsPerSecond,
                     .wake_target = std::make_shared<std::atomic<Engine*>>(nullptr)};
  parts.recorder = std::move(*Recorder::Open({.job = kJob, .rank = 1, .world_size = 2}));
  parts.transport =
      std::move(*MakeTransport("loopback", {.rank = 1, .world_size = 2, .job = kJob}));
  parts.control = MakePlane(1, 0, fd);
  return parts;
}

void ExpectRank1IsLost(ControlPlane* rank0, const std::string& why) {
  Losses heard;
  const Deadline deadline = Deadline::After(SteadyClock(), 20 * kNsPerSecond);
  while (heard.ranks.empty() && !deadline.Expired(SteadyClock())) {
    rank0->Poll(&heard);
    sched_yield();
  }
  EXPECT_EQ(heard.ranks, std::vector<int>{1}) << "rank 1 has left as if it were finished";
  EXPECT_NE(heard.why.find(why), std::string::npos) << heard.why;
}

TEST(Communicator, WithoutAThreadItTellsTheOthersWhy) {
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  const std::unique_ptr<ControlPlane> rank0 = MakePlane(0, 1, fds[0]);
  CommParts parts = PartsOfRank1(fds[1]);
  Status status;
  {
    const NoThreads none;
    status = Communicator::Create(std::move(parts)).status();
  }
  EXPECT_EQ(status.code(), gwSystemError) << status.ToString();
  ExpectRank1IsLost(rank0.get(), "cannot start the thread gw-engine");
}

// What it ended by may have been its own, and memory for telling it may have been missing then.
TEST(Communicator, ThatHasEndedTellsTheOthersWhyWhenItIsDestroyed) {
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  const std::unique_ptr<ControlPlane> rank0 = MakePlane(0, 1, fds[0]);
  auto comm = Communicator::Create(PartsOfRank1(fds[1]));
  ASSERT_TRUE(comm.ok()) << comm.status().ToString();
  const RevokeFields everything = {.culprit = kAllRanks, .scope = RevokeScope::kEpoch};
  const Status why(gwSystemError, "there is no memory");
  ASSERT_TRUE(rank0->Broadcast({.fields = everything, .body = EncodeStatus(why)}).ok());
  const Deadline deadline = Deadline::After(SteadyClock(), 20 * kNsPerSecond);
  while ((*comm)->async_error().ok() && !deadline.Expired(SteadyClock())) sched_yield();
  ASSERT_EQ((*comm)->async_error().code(), gwSystemError);
  comm->reset();
  ExpectRank1IsLost(rank0.get(), "it left: there is no memory");
}

}  // namespace
}  // namespace gradwire
