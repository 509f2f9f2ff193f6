// gwReduceScatterTensor: the plain call's sums where nothing is encoded, and no value lost where
// something is.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/rng.h"
#include "tests/lib/capi_ranks.h"
#include "tests/lib/test_seed.h"

namespace gradwire {
namespace {

constexpr const char* kSmallSlices = "slice_elems=1024; nonfinite=skip";

gwTensor_t Register(gwComm_t comm, const char* name, int64_t elems, gwDataType_t dtype,
                    const char* spec) {
  gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
  config.spec = spec;
  gwTensor_t tensor = nullptr;
  EXPECT_EQ(gwTensorRegister(comm, name, &elems, 1, dtype, &config, &tensor), gwSuccess)
      << gwGetLastError(comm);
  return tensor;
}

gwResult_t Scatter(gwTensor_t tensor, const void* send, void* recv, gwRedOp_t op = gwSum) {
  gwRequest_t request = nullptr;
  gwResult_t result = gwReduceScatterTensor(tensor, send, recv, op, nullptr, &request);
  if (result != gwSuccess) return result;
  result = gwRequestWait(request, -1);
  gwRequestFree(request);
  return result;
}

std::vector<float> Gradient(int64_t elems, int rank, uint64_t step) {
  RandomStream random(TestSeed(), static_cast<uint64_t>(rank) << 32 | step);
  std::vector<float> grad;
  for (int64_t i = 0; i < elems; ++i) grad.push_back(static_cast<float>(random.Unit() - 0.5));
  return grad;
}

TEST(ReduceScatterTensor, WithoutACodecIsThePlainCall) {
  for (int n : {1, 2, 3, 5}) {
    RunRanks(n, kSmallSlices, [&](int rank, gwComm_t comm) {
      constexpr int64_t kShard = 777;
      gwTensor_t tensor = Register(comm, "w", n * kShard, gwFloat32, "none");
      for (const gwRedOp_t op : {gwSum, gwAvg}) {
        std::vector<float> grad = Gradient(n * kShard, rank, 0), out(kShard), plain(kShard);
        ASSERT_EQ(gwReduceScatter(grad.data(), plain.data(), kShard, gwFloat32, op, comm, nullptr),
                  gwSuccess);
        ASSERT_EQ(Scatter(tensor, grad.data(), out.data(), op), gwSuccess) << gwGetLastError(comm);
        for (int64_t i = 0; i < kShard; ++i)
          ASSERT_NEAR(out[i], plain[i], 1e-6 * std::abs(plain[i])) << i;
        float* const shard = grad.data() + rank * kShard;
        ASSERT_EQ(Scatter(tensor, grad.data(), shard, op), gwSuccess) << "in place";
        for (int64_t i = 0; i < kShard; ++i) ASSERT_EQ(shard[i], out[i]) << i;
      }
    });
  }
}

// What is scaled for the sake of residuals does not underflow where there are none.
TEST(ReduceScatterTensor, HalvesKeepSmallValuesUnderALossScale) {
  for (const char* spec : {"none", "fp16"}) {
    SCOPED_TRACE(spec);
    RunRanks(2, kSmallSlices, [spec](int rank, gwComm_t comm) {
      gwTensor_t tensor = Register(comm, "w", 2, gwFloat16, spec);
      constexpr uint16_t kTiny = 5;  // 5 times the smallest number there is
      const uint16_t grad[] = {kTiny, kTiny};
      uint16_t out = 0;
      gwStepOutcome_t outcome = gwStepAborted;
      ASSERT_EQ(gwStepBegin(comm, 1), gwSuccess);
      ASSERT_EQ(gwStepSetLossScale(comm, 65536), gwSuccess);
      ASSERT_EQ(Scatter(tensor, grad, &out), gwSuccess) << gwGetLastError(comm);
      ASSERT_EQ(gwStepEnd(comm, &outcome), gwSuccess);
      EXPECT_EQ(outcome, gwStepCommitted);
      EXPECT_EQ(out, 2 * kTiny) << rank;
    });
  }
}

// Sums of all steps, of the shard of each rank: what was given and what came out.
struct Flow {
  std::vector<double> given, got;
};

// Steps of a codec with feedback, one of them with a NaN and so skipped, then an exact one that
// sends along what was kept.
Flow TrainScattered(gwComm_t comm, int rank, int n, const char* spec, int64_t shard) {
  const int64_t elems = n * shard;
  Flow flow = {std::vector<double>(shard), std::vector<double>(shard)};
  gwTensor_t tensor = Register(comm, "w", elems, gwFloat32, spec);
  gwTensor_t beside = Register(comm, "b", 70, gwFloat32, "none");
  for (uint64_t step = 0; step < 8; ++step) {
    const bool is_bad = step == 3;
    if (step == 7) {
      EXPECT_EQ(gwTensorSetSpec(tensor, "none"), gwSuccess);
    }
    std::vector<float> grad = Gradient(elems, rank, step), out(shard), bias(70, 1.0f);
    if (is_bad && rank == n - 1) grad[0] = std::numeric_limits<float>::quiet_NaN();
    gwStepOutcome_t outcome = gwStepAborted;
    gwRequest_t request = nullptr;
    EXPECT_EQ(gwStepBegin(comm, step), gwSuccess);
    EXPECT_EQ(gwAllReduceTensor(beside, bias.data(), bias.data(), gwSum, nullptr, &request),
              gwSuccess);
    EXPECT_EQ(Scatter(tensor, grad.data(), out.data()), gwSuccess) << gwGetLastError(comm);
    EXPECT_EQ(gwRequestWait(request, -1), gwSuccess);
    gwRequestFree(request);
    EXPECT_EQ(gwStepEnd(comm, &outcome), gwSuccess) << gwGetLastError(comm);
    EXPECT_EQ(outcome, is_bad ? gwStepSkipped : gwStepCommitted);
    EXPECT_EQ(bias[69], static_cast<float>(n));
    if (is_bad) continue;
    for (int r = 0; r < n; ++r) {
      const std::vector<float> theirs = Gradient(elems, r, step);
      for (int64_t i = 0; i < shard; ++i) flow.given[i] += theirs[rank * shard + i];
    }
    for (int64_t i = 0; i < shard; ++i) flow.got[i] += out[i];
  }
  return flow;
}

TEST(ReduceScatterTensor, LosesNothingOverManySteps) {
  SCOPED_TRACE(TestSeedText());
  for (const char* spec :
       {"qsgd(bits=4,feedback=on)", "efsign", "bf16(feedback=on)", "topk(0.1,agreement=owners)"}) {
    for (int n : {2, 3}) {
      SCOPED_TRACE(std::string(spec) + ", " + std::to_string(n) + " ranks");
      RunRanks(n, kSmallSlices, [&](int rank, gwComm_t comm) {
        const Flow flow = TrainScattered(comm, rank, n, spec, 1041);
        for (size_t i = 0; i < flow.got.size(); ++i)
          ASSERT_NEAR(flow.got[i], flow.given[i], 1e-4) << i;
      });
    }
  }
}

// The owner's shard of what it sends is overwritten, its residual is read before.
TEST(ReduceScatterTensor, InPlaceGivesTheSameBits) {
  constexpr int kRanks = 3;
  constexpr int64_t kShard = 1041;
  SCOPED_TRACE(TestSeedText());
  // Their draws, if any, do not depend on the name.
  for (const char* spec : {"none", "bf16", "qsgd(bits=4,feedback=on)", "efsign"}) {
    SCOPED_TRACE(spec);
    RunRanks(kRanks, kSmallSlices, [&](int rank, gwComm_t comm) {
      gwTensor_t apart = Register(comm, "apart", kRanks * kShard, gwFloat32, spec);
      gwTensor_t inside = Register(comm, "inside", kRanks * kShard, gwFloat32, spec);
      for (uint64_t step = 0; step < 4; ++step) {
        std::vector<float> grad = Gradient(kRanks * kShard, rank, step), out(kShard);
        float* const shard = grad.data() + rank * kShard;
        gwStepOutcome_t outcome = gwStepAborted;
        ASSERT_EQ(gwStepBegin(comm, step), gwSuccess);
        ASSERT_EQ(Scatter(apart, grad.data(), out.data(), gwAvg), gwSuccess);
        ASSERT_EQ(Scatter(inside, grad.data(), shard, gwAvg), gwSuccess);
        ASSERT_EQ(gwStepEnd(comm, &outcome), gwSuccess) << gwGetLastError(comm);
        EXPECT_EQ(outcome, gwStepCommitted);
        for (int64_t i = 0; i < kShard; ++i) ASSERT_EQ(shard[i], out[i]) << step << " " << i;
      }
    });
  }
}

TEST(ReduceScatterTensor, OfNoElementsIsComplete) {
  RunRanks(3, kSmallSlices, [](int, gwComm_t comm) {
    for (const char* spec : {"none", "bf16", "efsign"}) {
      gwTensor_t tensor = Register(comm, spec, 0, gwFloat32, spec);
      gwStepOutcome_t outcome = gwStepAborted;
      ASSERT_EQ(gwStepBegin(comm, 1), gwSuccess);
      EXPECT_EQ(Scatter(tensor, nullptr, nullptr), gwSuccess) << gwGetLastError(comm);
      ASSERT_EQ(gwStepEnd(comm, &outcome), gwSuccess) << gwGetLastError(comm);
      EXPECT_EQ(outcome, gwStepCommitted) << spec;
    }
  });
}

TEST(ReduceScatterTensor, SendsHalfOfAnAllReduce) {
  constexpr int kRanks = 4;
  RunRanks(kRanks, "", [](int rank, gwComm_t comm) {
    constexpr int64_t kElems = 4 * 8192;
    gwTensor_t tensor = Register(comm, "w", kElems, gwFloat32, "qsgd(bits=8,feedback=off)");
    const std::vector<float> grad = Gradient(kElems, rank, 0);
    std::vector<float> out(kElems);
    ASSERT_EQ(Scatter(tensor, grad.data(), out.data()), gwSuccess) << gwGetLastError(comm);
    const std::string ledger = LedgerText(comm);
    const size_t at = ledger.find("\"payload_bytes\": ");
    ASSERT_NE(at, std::string::npos) << ledger;
    // A byte an element and a scale a block, for the shards of the three others.
    EXPECT_EQ(std::stoll(ledger.substr(at + 17)), 3 * (8192 + 8192 / 256 * 4)) << ledger;
  });
}

}  // namespace
}  // namespace gradwire
