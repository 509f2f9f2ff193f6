// Strangers at rank 0's port, and surroundings in which no job can start.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "tests/fault/rank_processes.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

constexpr int kRanks = 3;
constexpr int64_t kSecondNs = 1'000'000'000;

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A port that nobody has at the moment.
uint16_t FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t bytes = sizeof address;
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), bytes), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes), 0);
  close(fd);
  return ntohs(address.sin_port);
}

// Connections of several kinds of stranger, kept open. True: somebody listened.
class Strangers {
 public:
  explicit Strangers(uint16_t port) : port_(port), random_(TestSeed()) {}
  ~Strangers() {
    for (int fd : fds_) close(fd);
  }
  bool Call(int kind) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = Loopback(port_);
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      close(fd);
      return false;
    }
    const std::string text = TextOf(kind);
    (void)send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (kind % 2 == 0) {
      close(fd);
    } else {
      fds_.push_back(fd);
    }
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

  const uint16_t port_;
  RandomStream random_;
  std::vector<int> fds_;
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

void WorkAmongStrangers(RankSide& side, uint16_t port) {
  // The last rank comes when the strangers have been.
  if (side.rank == kRanks - 1 && !side.AwaitGo()) return;
  gwComm_t comm = nullptr;
  if (const gwResult_t result = StartAt(port, side.rank, &comm); result != gwSuccess) {
    return side.Tell(ReportKind::kError, result, gwGetLastError(nullptr));
  }
  side.Tell(ReportKind::kReady, 0, "");
  std::vector<int64_t> data(10'000);
  for (int round = 0; round < 300; ++round) {
    for (size_t i = 0; i < data.size(); ++i) data[i] = side.rank + static_cast<int64_t>(i);
    const gwResult_t result =
        gwAllReduce(data.data(), data.data(), data.size(), gwInt64, gwSum, comm, nullptr);
    if (result != gwSuccess) return side.Tell(ReportKind::kError, result, gwGetLastError(comm));
    for (size_t i = 0; i < data.size(); ++i) {
      if (data[i] != 3 + 3 * static_cast<int64_t>(i))
        return side.Tell(ReportKind::kFailed, 0, "wrong sum");
    }
  }
  const gwResult_t left = gwCommDestroy(comm);
  side.Tell(left == gwSuccess ? ReportKind::kDone : ReportKind::kError, left, "destroy");
}

TEST(Surroundings, StrangersAtThePortChangeNothing) {
  SCOPED_TRACE(TestSeedText());
  const uint16_t port = FreePort();
  RankProcesses ranks(kRanks, [&](RankSide& side) { WorkAmongStrangers(side, port); });
  Strangers strangers(port);
  const int64_t deadline_ns = NowNs() + 30 * kSecondNs;
  int heard = 0;
  for (int kind = 0; heard < 200 && NowNs() < deadline_ns; ++kind) heard += strangers.Call(kind);
  EXPECT_EQ(heard, 200);
  ranks.Go(kRanks - 1);
  int done = 0, calls = 0;
  while (!ranks.all_gone() && NowNs() < deadline_ns) {
    // Also while the job runs.
    strangers.Call(++calls);
    const std::optional<Report> report = ranks.Next(NowNs() + kSecondNs / 1000);
    if (!report) continue;
    EXPECT_TRUE(report->kind == ReportKind::kDone || report->kind == ReportKind::kReady)
        << "rank " << report->rank << ": " << report->text;
    done += report->kind == ReportKind::kDone ? 1 : 0;
  }
  EXPECT_EQ(done, kRanks);
}

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
  const int64_t deadline_ns = NowNs() + 10 * kSecondNs;
  while (!ranks.all_gone() && NowNs() < deadline_ns) {
    const std::optional<Report> report = ranks.Next(deadline_ns);
    if (!report) continue;
    EXPECT_NE(report->code, gwSuccess);
    ++errors;
    clear += std::strstr(report->text, "UCX_TLS") != nullptr ? 1 : 0;
    RecordProperty("rank" + std::to_string(report->rank), report->text);
    std::printf("rank %d: %s\n", report->rank, report->text);
  }
  EXPECT_TRUE(ranks.all_gone());
  EXPECT_EQ(errors, 2);
  EXPECT_EQ(clear, 2);
}

}  // namespace
}  // namespace gradwire
