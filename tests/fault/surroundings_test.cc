// Strangers at the ports of a job, before and while it runs, and surroundings in which no job can
// start.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "cli/launch/rank_variables.h"
#include "tests/fault/rank_processes.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

constexpr int kRanks = 3;

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// Connections of several kinds of stranger, kept open. True: somebody listened.
class Strangers {
 public:
  explicit Strangers(const sockaddr_in& address) : address_(address), random_(TestSeed()) {}
  // One more byte from everybody who is still connected.
  void Dribble() {
    for (const UniqueFd& fd : fds_) (void)send(fd.get(), "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  bool Call(int kind) {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address_), sizeof address_) != 0) {
      return false;
    }
    const std::string text = TextOf(kind);
    (void)send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (kind % 2 != 0) fds_.push_back(std::move(fd));
    return true;
  }

 private:
  std::string TextOf(int kind) {
    if (kind % 4 == 0) return "";
    if (kind % 4 == 1) return "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    std::string text(1 + random_.Below(1000), '\0');
    for (char& c : text) c = static_cast<char>(random_.Below(256));
    return text;
  }

  const sockaddr_in address_;
  RandomStream random_;
  std::vector<UniqueFd> fds_;
};

gwResult_t StartAt(uint16_t port, int rank, gwComm_t* comm) {
  const std::string settings =
      "transport=ucx; debug=none; secret=correct horse; init_timeout_ms=20000; rank=" +
      std::to_string(rank) + "; world_size=" + std::to_string(kRanks) +
      "; root=127.0.0.1:" + std::to_string(port);
  gwConfig_t config = GW_CONFIG_INITIALIZER;
  config.settings = settings.c_str();
  return gwCommInitEnv(comm, &config);
}

// All-reduces until rank 0 may go, each with the right sum.
void WorkUntilGo(RankSide& side, gwComm_t comm) {
  std::vector<int64_t> data(10'000);
  for (bool last = false; !last;) {
    for (size_t i = 0; i < data.size(); ++i) data[i] = side.rank + static_cast<int64_t>(i);
    // The last element is the sum of those who have heard Go.
    data.back() = side.rank == 0 && side.MayGo() ? 1 : 0;
    const gwResult_t result =
        gwAllReduce(data.data(), data.data(), data.size(), gwInt64, gwSum, comm, nullptr);
    if (result != gwSuccess) return side.Tell(ReportKind::kError, result, gwGetLastError(comm));
    for (size_t i = 0; i + 1 < data.size(); ++i) {
      if (data[i] != 3 + 3 * static_cast<int64_t>(i))
        return side.Tell(ReportKind::kFailed, 0, "wrong sum");
    }
    last = data.back() != 0;
  }
  const gwResult_t left = gwCommDestroy(comm);
  side.Tell(left == gwSuccess ? ReportKind::kDone : ReportKind::kError, left, "destroy");
}

void WorkAmongStrangers(RankSide& side, uint16_t port) {
  // The last rank comes when the strangers have been.
  if (side.rank == kRanks - 1 && !side.AwaitGo()) return;
  gwComm_t comm = nullptr;
  if (const gwResult_t result = StartAt(port, side.rank, &comm); result != gwSuccess) {
    return side.Tell(ReportKind::kError, result, gwGetLastError(nullptr));
  }
  side.Tell(ReportKind::kReady, 0, "");
  WorkUntilGo(side, comm);
}

TEST(Surroundings, StrangersAtTheStartChangeNothing) {
  SCOPED_TRACE(TestSeedText());
  const StatusOr<int> found = FindFreePort("127.0.0.1");
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  const auto port = static_cast<uint16_t>(*found);
  RankProcesses ranks(kRanks, [&](RankSide& side) { WorkAmongStrangers(side, port); });
  Strangers strangers(Loopback(port));
  const int64_t deadline_ns = NowNs() + 30 * kNsPerSecond;
  int heard = 0;
  for (int kind = 0; heard < 200 && NowNs() < deadline_ns; ++kind) {
    heard += strangers.Call(kind);
    strangers.Dribble();
  }
  EXPECT_EQ(heard, 200);
  ranks.Go(kRanks - 1);
  ranks.Go(0);
  int done = 0;
  ranks.TakeAll(deadline_ns, [&](const RankReport& report) {
    EXPECT_TRUE(report.kind == ReportKind::kDone || report.kind == ReportKind::kReady)
        << "rank " << report.rank << ": " << report.text;
    done += report.kind == ReportKind::kDone ? 1 : 0;
  });
  EXPECT_EQ(done, kRanks);
}

// The addresses at which a process listens for TCP connections, from /proc.
std::vector<sockaddr_in> ListeningAt(pid_t pid) {
  namespace fs = std::filesystem;
  const fs::path proc = "/proc/" + std::to_string(pid);
  std::set<std::string> sockets;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator(proc / "fd", gone)) {
    const std::string target = fs::read_symlink(entry.path(), gone).string();
    if (target.starts_with("socket:[")) sockets.insert(target.substr(8, target.size() - 9));
  }
  std::vector<sockaddr_in> listening;
  std::ifstream table(proc / "net/tcp");
  std::string line;
  std::getline(table, line);  // names of the columns
  while (std::getline(table, line)) {
    std::istringstream columns(line);
    std::string number, local, remote, state, skipped, inode;
    columns >> number >> local >> remote >> state;
    for (int i = 0; i < 5; ++i) columns >> skipped;
    columns >> inode;
    constexpr const char* kListens = "0A";
    if (state != kListens || !sockets.contains(inode)) continue;
    // "0100007F:1F90": the address as it lies in memory, the port as one reads it.
    sockaddr_in address = Loopback(static_cast<uint16_t>(std::stoul(local.substr(9), nullptr, 16)));
    address.sin_addr.s_addr = static_cast<in_addr_t>(std::stoul(local.substr(0, 8), nullptr, 16));
    listening.push_back(address);
  }
  return listening;
}

void WorkOverTcp(RankSide& side, const std::string& transport) {
  setenv("UCX_TLS", "tcp", 1);
  gwComm_t comm = side.Join("debug=none; init_timeout_ms=20000; transport=" + transport);
  if (comm == nullptr) return;
  side.Tell(ReportKind::kReady, 0, "");
  WorkUntilGo(side, comm);
}

// The control plane listens no more, but the transport does, for peers without a connection yet.
class StrangersAtTheDataPorts : public testing::TestWithParam<const char*> {};

TEST_P(StrangersAtTheDataPorts, ChangeNothingOfARunningJob) {
  SCOPED_TRACE(TestSeedText());
  RankProcesses ranks(kRanks, [](RankSide& side) { WorkOverTcp(side, GetParam()); });
  const int64_t deadline_ns = NowNs() + 30 * kNsPerSecond;
  int done = 0, ready = 0;
  const auto take = [&](const RankReport& report) {
    EXPECT_TRUE(report.kind == ReportKind::kDone || report.kind == ReportKind::kReady)
        << "rank " << report.rank << ": " << report.text;
    ready += report.kind == ReportKind::kReady ? 1 : 0;
    done += report.kind == ReportKind::kDone ? 1 : 0;
  };
  const auto take_next = [&](int64_t until_ns) {
    if (const std::optional<RankReport> report = ranks.Next(until_ns)) take(*report);
  };
  while (ready < kRanks && !ranks.all_gone() && NowNs() < deadline_ns) take_next(deadline_ns);
  ASSERT_EQ(ready, kRanks);
  std::deque<Strangers> strangers;
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::vector<sockaddr_in> listening = ListeningAt(ranks.pid(rank));
    EXPECT_FALSE(listening.empty()) << "rank " << rank;
    for (const sockaddr_in& address : listening) strangers.emplace_back(address);
  }
  constexpr int kCallsEach = 100;
  int heard = 0;
  for (int kind = 0; kind < kCallsEach; ++kind) {
    for (Strangers& some : strangers) {
      heard += some.Call(kind);
      some.Dribble();
    }
    take_next(NowNs() + kNsPerMs);
  }
  EXPECT_EQ(heard, kCallsEach * static_cast<int>(strangers.size()));
  ranks.Go(0);
  ranks.TakeAll(deadline_ns, take);
  EXPECT_EQ(done, kRanks);
}

INSTANTIATE_TEST_SUITE_P(Transports, StrangersAtTheDataPorts, testing::Values("ucx", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

// A UCX that cannot reach the other process says so, and which variable to change.
TEST(Surroundings, UcxWithoutAWayToTheOthersFailsClearly) {
  RankProcesses ranks(2, [](RankSide& side) {
    setenv("UCX_TLS", "self", 1);
    gwUniqueId id;
    if (!side.ExchangeId(&id)) return side.Tell(ReportKind::kVoid, 0, "");
    gwConfig_t config = GW_CONFIG_INITIALIZER;
    config.settings = "transport=ucx; debug=none; init_timeout_ms=3000; abort_timeout_ms=1000";
    gwComm_t comm = nullptr;
    gwResult_t result = gwCommInitRankConfig(&comm, 2, id, side.rank, &config);
    if (result == gwSuccess) result = gwBarrier(comm, nullptr);
    side.Tell(ReportKind::kError, result, gwGetLastError(comm));
    (void)gwCommDestroy(comm);
  });
  int errors = 0, clear = 0;
  const auto take = [&](const RankReport& report) {
    EXPECT_NE(report.code, gwSuccess);
    ++errors;
    clear += std::strstr(report.text, "UCX_TLS") != nullptr ? 1 : 0;
    RecordProperty("rank" + std::to_string(report.rank), report.text);
    std::printf("rank %d: %s\n", report.rank, report.text);
  };
  EXPECT_TRUE(ranks.TakeAll(NowNs() + 10 * kNsPerSecond, take));
  EXPECT_EQ(errors, 2);
  EXPECT_EQ(clear, 2);
}

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The same surroundings, and the choice is gradwire's. Between hosts rank 0 warns of it.
void ExpectAutoTakes(const std::string& transport, bool two_hosts) {
  const std::string log = testing::TempDir() + "/auto_" + transport;
  RankProcesses ranks(2, [&](RankSide& side) {
    setenv("UCX_TLS", "self", 1);
    std::string settings = "transport=auto; debug=warn; init_timeout_ms=20000; debug_file=" + log +
                           std::to_string(side.rank);
    if (two_hosts) settings += "; host_id=host" + std::to_string(side.rank);
    gwComm_t comm = side.Join(settings);
    if (comm == nullptr) return;
    gwResult_t result = gwBarrier(comm, nullptr);
    std::string stats(4096, '\0');
    size_t bytes = stats.size();
    if (result == gwSuccess) result = gwCommGetStats(comm, stats.data(), &bytes);
    const bool taken = stats.find("\"transport\": \"" + transport + "\"") != stats.npos;
    const char* text = result == gwSuccess ? stats.c_str() : gwGetLastError(comm);
    side.Tell(taken ? ReportKind::kDone : ReportKind::kError, result, text);
    (void)gwCommDestroy(comm);
  });
  int done = 0;
  ranks.TakeAll(NowNs() + 30 * kNsPerSecond, [&](const RankReport& report) {
    EXPECT_EQ(report.kind, ReportKind::kDone) << report.text;
    done += report.kind == ReportKind::kDone ? 1 : 0;
  });
  EXPECT_EQ(done, 2);
  const std::string warned = TextOf(log + "0");
  EXPECT_EQ(warned.find("passes over ucx: rank 0") != warned.npos, two_hosts) << warned;
  EXPECT_EQ(warned.find("UCX_TLS=self") != warned.npos, two_hosts) << warned;
  EXPECT_EQ(TextOf(log + "1"), "");
}

TEST(Surroundings, AutoSharesMemoryOnAHostWhereUcxDoesNotWork) { ExpectAutoTakes("shm", false); }
TEST(Surroundings, AutoGoesOverTcpBetweenHostsWhereUcxDoesNotWork) { ExpectAutoTakes("tcp", true); }

}  // namespace
}  // namespace gradwire
