// Communicators that processes split: over every transport, and with a rank that dies in the
// middle.
#include <gtest/gtest.h>

#include <string>

#include "tests/fault/rank_processes.h"
#include "transports/transport.h"

namespace gradwire {
namespace {

constexpr int kRanks = 4;
constexpr int64_t kBoundNs = 3 * kNsPerSecond;
constexpr int64_t kHardBoundNs = 60 * kNsPerSecond;

// Tells kFailed unless the ranks of `comm` sum to `expected`.
void CheckSum(RankSide& side, gwComm_t comm, int expected) {
  int32_t sum = side.rank;
  const gwResult_t result = gwAllReduce(&sum, &sum, 1, gwInt32, gwSum, comm, nullptr);
  if (result != gwSuccess || sum != expected) {
    side.Tell(ReportKind::kFailed, result, "sum " + std::to_string(sum) + gwGetLastError(comm));
  }
}

void SplitAndSum(RankSide& side, const std::string& settings) {
  gwComm_t comm = side.Join(settings);
  if (comm == nullptr) return;
  gwComm_t half = nullptr;
  const gwResult_t result = gwCommSplit(comm, side.rank % 2, -side.rank, &half, nullptr);
  if (result != gwSuccess) {
    side.Tell(ReportKind::kFailed, result, gwGetLastError(comm));
  } else {
    CheckSum(side, half, side.rank % 2 == 0 ? 2 : 4);
    CheckSum(side, comm, 6);
    // In either order.
    if (gwCommDestroy(side.rank < 2 ? comm : half) != gwSuccess)
      side.Tell(ReportKind::kFailed, 0, "the first gwCommDestroy");
    if (gwCommDestroy(side.rank < 2 ? half : comm) != gwSuccess)
      side.Tell(ReportKind::kFailed, 0, "the second gwCommDestroy");
  }
  side.Tell(ReportKind::kDone, 0, "");
}

TEST(SplitProcesses, SumInTheirGroupsOverEveryTransport) {
  for (const std::string& transport : ProcessTransports()) {
    SCOPED_TRACE(transport);
    const std::string settings = "debug=none; abort_timeout_ms=3000; transport=" + transport;
    RankProcesses ranks(kRanks, [&](RankSide& side) { SplitAndSum(side, settings); });
    int done = 0;
    const auto take = [&](const RankReport& report) {
      EXPECT_EQ(report.kind, ReportKind::kDone) << "rank " << report.rank << ": " << report.text;
      done += report.kind == ReportKind::kDone ? 1 : 0;
    };
    EXPECT_TRUE(ranks.TakeAll(NowNs() + kHardBoundNs, take)) << "hangs";
    EXPECT_EQ(done, kRanks);
  }
}

// A failpoint in the split alone: settings of the new communicator arm it.
void SplitWithDeath(RankSide& side, int victim, const std::string& failpoint) {
  const std::string settings = "transport=shm; debug=none; abort_timeout_ms=1500";
  gwComm_t comm = side.Join(settings);
  if (comm == nullptr) return;
  const std::string armed = settings + (side.rank == victim ? "; failpoint=" + failpoint : "");
  gwConfig_t config = GW_CONFIG_INITIALIZER;
  config.settings = armed.c_str();
  gwComm_t half = nullptr;
  const gwResult_t result = gwCommSplit(comm, side.rank % 2, 0, &half, &config);
  side.Tell(ReportKind::kError, result, gwGetLastError(comm));
  if (half != nullptr) side.Tell(ReportKind::kFailed, 0, "a communicator in spite of the error");
  side.Leave(comm);
}

void ExpectToldOfDeath(int victim, const std::string& failpoint) {
  SCOPED_TRACE(testing::Message() << failpoint << " on rank " << victim);
  RankProcesses ranks(kRanks, [&](RankSide& side) { SplitWithDeath(side, victim, failpoint); });
  int told = 0, done = 0;
  int64_t first_ns = 0, last_ns = 0;
  const auto take = [&](const RankReport& report) {
    EXPECT_NE(report.kind, ReportKind::kFailed) << "rank " << report.rank << ": " << report.text;
    done += report.kind == ReportKind::kDone ? 1 : 0;
    if (report.kind != ReportKind::kError) return;
    ++told;
    EXPECT_NE(report.rank, victim) << "lives";
    EXPECT_EQ(report.code, gwPeerLost) << report.text;
    const std::string text = report.text;
    EXPECT_NE(text.find("rank " + std::to_string(victim)), std::string::npos) << text;
    EXPECT_NE(text.find("gwCommSplit"), std::string::npos) << text;
    if (first_ns == 0) first_ns = report.time_ns;
    last_ns = report.time_ns;
  };
  EXPECT_TRUE(ranks.TakeAll(NowNs() + kHardBoundNs, take)) << "hangs";
  EXPECT_EQ(told, kRanks - 1);
  EXPECT_EQ(done, kRanks - 1);
  EXPECT_LT(last_ns - first_ns, kBoundNs);
}

// While all tell what they want, while the ids travel, and in the start of a group. (A rank that
// dies when it has told how its start ended is a rank that dies after the split.)
TEST(SplitProcesses, ADeathInTheMiddleIsToldToAll) {
  for (const char* failpoint : {"slice", "slice:2", "hello", "roster"}) {
    for (int victim = 0; victim < kRanks; ++victim) ExpectToldOfDeath(victim, failpoint);
  }
}

}  // namespace
}  // namespace gradwire
