#include "tests/lib/capi_ranks.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>

namespace gradwire {

void RunRanksWith(const std::vector<std::string>& settings,
                  const std::function<void(int rank, gwResult_t started, gwComm_t comm)>& body) {
  const int world_size = static_cast<int>(settings.size());
  gwUniqueId id;
  ASSERT_EQ(gwGetUniqueId(&id), gwSuccess) << gwGetLastError(nullptr);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      const std::string mine = "transport=loopback; " + settings[rank];
      gwConfig_t config = GW_CONFIG_INITIALIZER;
      config.settings = mine.c_str();
      gwComm_t comm = nullptr;
      const gwResult_t started = gwCommInitRankConfig(&comm, world_size, id, rank, &config);
      EXPECT_EQ(started == gwSuccess, comm != nullptr);
      body(rank, started, comm);
      if (testing::Test::HasFatalFailure() && comm != nullptr) gwCommAbort(comm);
      EXPECT_EQ(gwCommDestroy(comm), gwSuccess);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void RunRanks(int world_size, const std::string& settings,
              const std::function<void(int rank, gwComm_t comm)>& body) {
  RunRanksWith(std::vector<std::string>(world_size, settings),
               [&](int rank, gwResult_t started, gwComm_t comm) {
                 ASSERT_EQ(started, gwSuccess) << gwGetLastError(nullptr);
                 body(rank, comm);
               });
}

bool AllReduceWorks(int rank, int world_size, gwComm_t comm) {
  int32_t values[3] = {rank, 1, -5 * rank};
  if (gwAllReduce(values, values, 3, gwInt32, gwSum, comm, nullptr) != gwSuccess) return false;
  const int32_t ranks = world_size * (world_size - 1) / 2;
  return values[0] == ranks && values[1] == world_size && values[2] == -5 * ranks;
}

namespace {

// What a call of this kind writes when it is told where.
std::string TextOf(gwComm_t comm, gwResult_t (*get)(gwComm_t, char*, size_t*)) {
  size_t bytes = 0;
  EXPECT_EQ(get(comm, nullptr, &bytes), gwSuccess) << gwGetLastError(comm);
  std::string text(bytes, '\0');
  EXPECT_EQ(get(comm, text.data(), &bytes), gwSuccess) << gwGetLastError(comm);
  return text;
}

}  // namespace

std::string SavedState(gwComm_t comm) {
  return TextOf(comm,
                [](gwComm_t of, char* to, size_t* bytes) { return gwStateSave(of, to, bytes); });
}

std::string LedgerText(gwComm_t comm) { return TextOf(comm, gwCommGetLedger); }

// Counters grow while one asks for the size, so this asks once.
std::string StatsText(gwComm_t comm) {
  std::string text(size_t{1} << 14, '\0');
  size_t bytes = text.size();
  EXPECT_EQ(gwCommGetStats(comm, text.data(), &bytes), gwSuccess) << gwGetLastError(comm);
  text.resize(bytes);
  return text;
}

}  // namespace gradwire
