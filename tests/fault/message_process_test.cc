// gwSend and gwRecv between processes: over every transport, and with a rank that dies.
#include <gtest/gtest.h>
#include <signal.h>

#include <numeric>
#include <string>
#include <vector>

#include "tests/fault/rank_processes.h"
#include "transports/transport.h"

namespace gradwire {
namespace {

constexpr int kRanks = 3;
constexpr int64_t kMismatchBoundNs = kNsPerSecond;
constexpr int64_t kHardBoundNs = 60 * kNsPerSecond;
constexpr size_t kElems = 3'000'001;

gwComm_t Join(RankSide& side, const std::string& transport) {
  return side.Join("debug=none; abort_timeout_ms=3000; transport=" + transport);
}

gwResult_t Ring(RankSide& side, gwComm_t comm, const std::vector<int32_t>& sent,
                std::vector<int32_t>* got) {
  const int next = (side.rank + 1) % kRanks, before = (side.rank + kRanks - 1) % kRanks;
  (void)gwGroupStart();
  (void)gwSend(sent.data(), sent.size(), gwInt32, next, comm, nullptr);
  (void)gwRecv(got->data(), got->size(), gwInt32, before, comm, nullptr);
  return gwGroupEnd();
}

std::vector<int32_t> ValuesOf(int rank, int round) {
  std::vector<int32_t> values(kElems);
  std::iota(values.begin(), values.end(), (rank + 1) * 10'000'000 + round);
  return values;
}

void SendAround(RankSide& side, const std::string& transport) {
  gwComm_t comm = Join(side, transport);
  if (comm == nullptr) return;
  for (int round = 0; round < 5; ++round) {
    std::vector<int32_t> got(kElems);
    const gwResult_t result = Ring(side, comm, ValuesOf(side.rank, round), &got);
    if (result != gwSuccess) side.Tell(ReportKind::kFailed, result, gwGetLastError(comm));
    if (got != ValuesOf((side.rank + kRanks - 1) % kRanks, round))
      side.Tell(ReportKind::kFailed, round, "other values");
  }
  // Ranks 0 and 1 disagree; rank 2 has no part in it.
  if (side.rank < 2) {
    std::vector<int32_t> values(2);
    const int64_t begin_ns = NowNs();
    const gwResult_t result = side.rank == 0 ? gwSend(values.data(), 1, gwInt32, 1, comm, nullptr)
                                             : gwRecv(values.data(), 2, gwInt32, 0, comm, nullptr);
    side.Tell(ReportKind::kError, result, gwGetLastError(comm));
    if (NowNs() - begin_ns > kMismatchBoundNs) side.Tell(ReportKind::kFailed, 0, "late");
  }
  if (gwBarrier(comm, nullptr) != gwSuccess)
    side.Tell(ReportKind::kFailed, 0, gwGetLastError(comm));
  side.Leave(comm);
}

TEST(MessageProcesses, SendAroundOverEveryTransport) {
  for (const std::string& transport : ProcessTransports()) {
    SCOPED_TRACE(transport);
    RankProcesses ranks(kRanks, [&](RankSide& side) { SendAround(side, transport); });
    int done = 0, told = 0;
    const auto take = [&](const RankReport& report) {
      EXPECT_NE(report.kind, ReportKind::kFailed) << "rank " << report.rank << ": " << report.text;
      done += report.kind == ReportKind::kDone ? 1 : 0;
      if (report.kind != ReportKind::kError) return;
      ++told;
      EXPECT_EQ(report.code, gwMismatch) << report.text;
      const std::string text = report.text;
      EXPECT_NE(text.find("1 (rank 0)"), std::string::npos) << text;
      EXPECT_NE(text.find("2 (rank 1)"), std::string::npos) << text;
    };
    EXPECT_TRUE(ranks.TakeAll(NowNs() + kHardBoundNs, take)) << "hangs";
    EXPECT_EQ(done, kRanks);
    EXPECT_EQ(told, 2);
  }
}

// Sends around until it fails. The victim says when it is at it.
void SendUntilError(RankSide& side, int victim) {
  gwComm_t comm = Join(side, "auto");
  if (comm == nullptr) return;
  const std::vector<int32_t> sent = ValuesOf(side.rank, 0);
  std::vector<int32_t> got(kElems);
  gwResult_t result = Ring(side, comm, sent, &got);
  if (side.rank == victim) side.Tell(ReportKind::kReady, 0, "");
  while (result == gwSuccess) result = Ring(side, comm, sent, &got);
  side.Tell(ReportKind::kError, result, gwGetLastError(comm));
  side.Leave(comm);
}

TEST(MessageProcesses, ADeadPeerIsToldToAll) {
  for (int victim = 0; victim < kRanks; ++victim) {
    SCOPED_TRACE(victim);
    RankProcesses ranks(kRanks, [&](RankSide& side) { SendUntilError(side, victim); });
    int done = 0, told = 0;
    const auto take = [&](const RankReport& report) {
      EXPECT_NE(report.kind, ReportKind::kFailed) << "rank " << report.rank << ": " << report.text;
      if (report.kind == ReportKind::kReady) ranks.Signal(victim, SIGKILL);
      done += report.kind == ReportKind::kDone ? 1 : 0;
      if (report.kind != ReportKind::kError) return;
      ++told;
      EXPECT_EQ(report.code, gwPeerLost) << report.text;
      EXPECT_NE(std::string(report.text).find("rank " + std::to_string(victim)), std::string::npos)
          << report.text;
    };
    EXPECT_TRUE(ranks.TakeAll(NowNs() + kHardBoundNs, take)) << "hangs";
    EXPECT_EQ(done, kRanks - 1);
    EXPECT_EQ(told, kRanks - 1);
  }
}

}  // namespace
}  // namespace gradwire
