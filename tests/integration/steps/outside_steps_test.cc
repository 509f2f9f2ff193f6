// Tensors outside steps, where no vote takes back what one rank has completed and another has not:
// after a failure all ranks go on, with sums that are the same on all of them.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <string>
#include <vector>

#include "tests/lib/capi_ranks.h"

namespace gradwire {
namespace {

constexpr int kRanks = 3;
constexpr int kRounds = 4;
constexpr int64_t kRows = 32, kColumns = 48;

// Those whose codecs count or keep something alike on all ranks, and two that do not.
constexpr const char* kSpecs[] = {"randk(density=0.1)", "powersgd(rank=2)",         "acp(rank=2)",
                                  "topk(density=0.05)", "qsgd(bits=4,feedback=on)", "bf16"};

using Sums = std::vector<std::vector<float>>;  // by spec

std::vector<gwTensor_t> RegisterAll(gwComm_t comm) {
  std::vector<gwTensor_t> handles;
  for (const char* spec : kSpecs) {
    const int64_t shape[] = {kRows, kColumns};
    gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
    config.spec = spec;
    const std::string name = "w" + std::to_string(handles.size());
    EXPECT_EQ(
        gwTensorRegister(comm, name.c_str(), shape, 2, gwFloat32, &config, &handles.emplace_back()),
        gwSuccess)
        << gwGetLastError(comm);
  }
  return handles;
}

// What follows a failure is not submitted.
gwResult_t SumAll(int rank, int round, const std::vector<gwTensor_t>& handles, Sums* sums) {
  sums->clear();
  for (const gwTensor_t handle : handles) {
    std::vector<float> gradient(kRows * kColumns);
    for (size_t i = 0; i < gradient.size(); ++i)
      gradient[i] = static_cast<float>((i * 37 + round * 11) % 101) - 50.0f * rank;
    std::vector<float>& sum = sums->emplace_back(gradient.size());
    gwRequest_t request = nullptr;
    gwResult_t result =
        gwAllReduceTensor(handle, gradient.data(), sum.data(), gwSum, nullptr, &request);
    if (result != gwSuccess) return result;
    result = gwRequestWait(request, -1);
    EXPECT_EQ(gwRequestFree(request), gwSuccess);
    if (result != gwSuccess) return result;
  }
  return gwSuccess;
}

// All ranks' rounds, some of which may fail. True: one did.
bool SumAllWithDamage(const std::string& damage) {
  std::barrier together(kRanks);
  std::vector<Sums> sums(kRanks);
  std::atomic<int> failures[kRounds] = {};
  RunRanks(kRanks, "slice_elems=256; " + damage, [&](int rank, gwComm_t comm) {
    const std::vector<gwTensor_t> handles = RegisterAll(comm);
    for (int round = 0; round < kRounds; ++round) {
      const gwResult_t result = SumAll(rank, round, handles, &sums[rank]);
      if (result != gwSuccess) {
        EXPECT_EQ(result, gwDataCorrupt) << "round " << round << ": " << gwGetLastError(comm);
        ++failures[round];
      }
      together.arrive_and_wait();
      if (failures[round] == 0) {
        EXPECT_EQ(sums[rank], sums[0]) << "round " << round;
      } else if (result == gwSuccess) {
        // It had all it needed when the others failed, and hears of that in its next call.
        EXPECT_EQ(gwBarrier(comm, nullptr), gwDataCorrupt) << gwGetLastError(comm);
      }
      together.arrive_and_wait();
    }
  });
  int failed_rounds = 0;
  for (const std::atomic<int>& count : failures) failed_rounds += count > 0;
  EXPECT_LE(failed_rounds, kRanks) << "each rank damages one fragment";
  return failed_rounds > 0;
}

TEST(OutsideSteps, GoodRanksGetTheSameSums) { EXPECT_FALSE(SumAllWithDamage("")); }

TEST(OutsideSteps, AfterDamagedFramesAnywhereAllGoOn) {
  int failed = 0;
  for (int at = 0; at < 180; at += 3) {
    SCOPED_TRACE(at);
    failed += SumAllWithDamage("transport=faulty(loopback,corrupt_at=" + std::to_string(at) + ")");
  }
  EXPECT_GT(failed, 30) << "the damage did not reach the operations";
}

}  // namespace
}  // namespace gradwire
