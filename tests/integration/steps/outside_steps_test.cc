// Tensors outside steps, where no vote takes back what one rank has completed and another has not:
// after a failure all ranks go on, with sums that are the same on all of them.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <functional>
#include <string>
#include <thread>
#include <utility>
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

// Rank 1 asks instead of waiting.
gwResult_t Finish(int rank, gwRequest_t request) {
  if (rank != 1) return gwRequestWait(request, -1);
  for (int done = 0;;) {
    const gwResult_t result = gwRequestTest(request, &done);
    if (done != 0) return result;
    std::this_thread::yield();
  }
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
    result = Finish(rank, request);
    EXPECT_EQ(gwRequestFree(request), gwSuccess);
    if (result != gwSuccess) return result;
  }
  return gwSuccess;
}

void SetSpecs(gwComm_t comm, const std::vector<gwTensor_t>& handles,
              const std::function<const char*(size_t)>& spec) {
  for (size_t i = 0; i < handles.size(); ++i)
    ASSERT_EQ(gwTensorSetSpec(handles[i], spec(i)), gwSuccess) << gwGetLastError(comm);
}

enum class Then : uint8_t { kGoOn, kSumExactly, kStayExact };

// All ranks' rounds, some of which may fail. True: one did. The round after the first has the specs
// of all others, or none, and so may those that follow.
bool SumAllWithDamage(const std::string& damage, Then then = Then::kGoOn) {
  std::barrier together(kRanks);
  std::vector<Sums> sums(kRanks);
  std::atomic<int> failures[kRounds] = {};
  RunRanks(kRanks, "slice_elems=256; " + damage, [&](int rank, gwComm_t comm) {
    const std::vector<gwTensor_t> handles = RegisterAll(comm);
    for (int round = 0; round < kRounds; ++round) {
      if (then != Then::kGoOn && round == 1) SetSpecs(comm, handles, [](size_t) { return "none"; });
      if (then == Then::kSumExactly && round == 2)
        SetSpecs(comm, handles, [](size_t i) { return kSpecs[i]; });
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

// Asked again, the first request must not make a rank hear of the second one's turn once more.
TEST(OutsideSteps, WhoAsksForOldFailuresGoesOn) {
  RunRanks(2, "", [](int rank, gwComm_t comm) {
    const std::vector<gwTensor_t> handles = RegisterAll(comm);
    std::vector<float> ones(kRows * kColumns, 1.0f), sum(ones.size());
    gwRequest_t failed[2] = {};
    for (gwRequest_t& request : failed) {
      ASSERT_EQ(gwAllReduceTensor(handles.back(), ones.data(), sum.data(),
                                  rank == 0 ? gwSum : gwAvg, nullptr, &request),
                gwSuccess)
          << gwGetLastError(comm);
      EXPECT_EQ(Finish(1, request), gwMismatch) << gwGetLastError(comm);
    }
    EXPECT_EQ(Finish(1, failed[0]), gwMismatch);
    gwRequest_t request = nullptr;
    ASSERT_EQ(gwAllReduceTensor(handles.back(), ones.data(), sum.data(), gwSum, nullptr, &request),
              gwSuccess)
        << gwGetLastError(comm);
    EXPECT_EQ(gwRequestWait(request, -1), gwSuccess) << gwGetLastError(comm);
    EXPECT_EQ(sum, std::vector<float>(ones.size(), 2.0f));
    for (const gwRequest_t each : {failed[0], failed[1], request})
      EXPECT_EQ(gwRequestFree(each), gwSuccess);
  });
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

// Whether a tensor has a residual decides what travels with the exact sum, and a rank that did not
// come to the end has none where the others have.
TEST(OutsideSteps, AfterDamagedFramesAnywhereSumsCanBeExact) {
  int failed = 0;
  for (int at = 0; at < 60; at += 2) {
    SCOPED_TRACE(at);
    failed += SumAllWithDamage("transport=faulty(loopback,corrupt_at=" + std::to_string(at) + ")",
                               Then::kSumExactly);
  }
  EXPECT_GT(failed, 10) << "the damage did not reach the operations";
}

// Who comes to the end of the first exact sum lets go of the residuals that are sent in it, and who
// does not still has them.
TEST(OutsideSteps, AfterDamagedFramesAnywhereExactSumsGoOn) {
  int failed = 0;
  for (int at = 50; at < 230; at += 4) {
    SCOPED_TRACE(at);
    failed += SumAllWithDamage("transport=faulty(loopback,corrupt_at=" + std::to_string(at) + ")",
                               Then::kStayExact);
  }
  EXPECT_GT(failed, 30) << "the damage did not reach the operations";
}

// The sum of a step that follows others, each of which an operation outside steps precedes; with
// an attempt at the last one in which the ranks disagree, or without.
std::vector<float> LastSum(bool disagree) {
  std::vector<std::vector<float>> sums(kRanks, std::vector<float>(kRows * kColumns));
  std::barrier together(kRanks);
  RunRanks(kRanks, "slice_elems=256", [&](int rank, gwComm_t comm) {
    gwTensor_t metric = nullptr, weights = nullptr;
    gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
    config.spec = "powersgd(rank=2)";
    const int64_t shape[] = {kRows, kColumns};
    for (auto& [name, tensor] : {std::pair{"metric", &metric}, std::pair{"weights", &weights}}) {
      ASSERT_EQ(gwTensorRegister(comm, name, shape, 2, gwFloat32, &config, tensor), gwSuccess);
    }
    std::vector<float> gradient(kRows * kColumns);
    const auto sum = [&](gwTensor_t tensor, gwRedOp_t op) {
      gwRequest_t request = nullptr;
      EXPECT_EQ(
          gwAllReduceTensor(tensor, gradient.data(), sums[rank].data(), op, nullptr, &request),
          gwSuccess);
      const gwResult_t result = gwRequestWait(request, -1);
      EXPECT_EQ(gwRequestFree(request), gwSuccess);
      return result;
    };
    const auto run_step = [&](uint64_t step, gwRedOp_t op) {
      gwStepOutcome_t outcome = gwStepCommitted;
      EXPECT_EQ(gwStepBegin(comm, step), gwSuccess);
      (void)sum(weights, op);
      EXPECT_EQ(gwStepEnd(comm, &outcome), gwSuccess);
      return outcome;
    };
    constexpr uint64_t kSteps = 3;
    for (uint64_t step = 0; step < kSteps; ++step) {
      for (size_t i = 0; i < gradient.size(); ++i)
        gradient[i] = static_cast<float>((i * i * 37 + step * 11) % 101) - 20.0f * rank;
      EXPECT_EQ(sum(metric, gwSum), gwSuccess) << gwGetLastError(comm);
      together.arrive_and_wait();  // complete on all
      if (disagree && step + 1 == kSteps) {
        EXPECT_EQ(run_step(step, rank == 0 ? gwAvg : gwSum), gwStepAborted);
      }
      EXPECT_EQ(run_step(step, gwSum), gwStepCommitted) << gwGetLastError(comm);
    }
  });
  return sums[0];
}

TEST(OutsideSteps, WhatAllHaveCompletedIsNoConcernOfAnAbort) {
  EXPECT_EQ(LastSum(/*disagree=*/true), LastSum(/*disagree=*/false));
}

}  // namespace
}  // namespace gradwire
