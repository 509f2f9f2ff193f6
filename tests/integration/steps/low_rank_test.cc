// Matrices by low rank through the C API: the biases beside them, and a matrix that changes its
// shape.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/lib/capi_ranks.h"

namespace gradwire {
namespace {

constexpr int kRanks = 3;

gwTensor_t Register(gwComm_t comm, const char* name, const std::vector<int64_t>& shape,
                    const char* spec) {
  gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
  config.spec = spec;
  gwTensor_t tensor = nullptr;
  EXPECT_EQ(gwTensorRegister(comm, name, shape.data(), static_cast<int>(shape.size()), gwFloat32,
                             &config, &tensor),
            gwSuccess)
      << gwGetLastError(comm);
  return tensor;
}

// Small integers: exact in any sum, and of no low rank. Another step, other values.
std::vector<float> Gradient(int rank, uint64_t step, int64_t elems) {
  std::vector<float> values(elems);
  for (int64_t i = 0; i < elems; ++i) {
    values[i] =
        static_cast<float>((i * i * (rank + 3) + 11 * i + 17 * static_cast<int64_t>(step)) % 41) -
        20;
  }
  return values;
}

std::vector<float> SumOfGradients(uint64_t step, int64_t elems) {
  std::vector<float> sum(elems);
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::vector<float> mine = Gradient(rank, step, elems);
    for (int64_t i = 0; i < elems; ++i) sum[i] += mine[i];
  }
  return sum;
}

// All tensors as one group in a step of their own; what each gets.
std::vector<std::vector<float>> Step(gwComm_t comm, int rank, uint64_t step,
                                     const std::vector<gwTensor_t>& tensors,
                                     const std::vector<int64_t>& elems) {
  std::vector<std::vector<float>> grads, outs;
  std::vector<const void*> send;
  std::vector<void*> recv;
  for (const int64_t count : elems) {
    grads.push_back(Gradient(rank, step, count));
    outs.emplace_back(count);
  }
  for (size_t t = 0; t < tensors.size(); ++t) {
    send.push_back(grads[t].data());
    recv.push_back(outs[t].data());
  }
  gwRequest_t request = nullptr;
  gwStepOutcome_t outcome = gwStepAborted;
  EXPECT_EQ(gwStepBegin(comm, step), gwSuccess) << gwGetLastError(comm);
  EXPECT_EQ(gwAllReduceTensors(static_cast<int>(tensors.size()), tensors.data(), send.data(),
                               recv.data(), gwSum, nullptr, &request),
            gwSuccess)
      << gwGetLastError(comm);
  EXPECT_EQ(gwRequestWait(request, -1), gwSuccess) << gwGetLastError(comm);
  EXPECT_EQ(gwRequestFree(request), gwSuccess);
  EXPECT_EQ(gwStepEnd(comm, &outcome), gwSuccess) << gwGetLastError(comm);
  EXPECT_EQ(outcome, gwStepCommitted) << gwGetLastError(comm);
  return outs;
}

int Operations(gwComm_t comm) {
  const std::string stats = StatsText(comm), key = "\"operations\": ";
  const size_t at = stats.find(key);
  return at == std::string::npos ? -1 : std::stoi(stats.substr(at + key.size()));
}

// One spec for both, as a program would have it: of the bias it says nothing.
TEST(LowRank, ABiasRidesExactInTheOperationOfItsMatrix) {
  constexpr int64_t kRows = 64, kBias = 2000;
  for (const char* spec : {"powersgd(rank=2)", "acp(rank=2)"}) {
    SCOPED_TRACE(spec);
    RunRanks(kRanks, "", [&](int rank, gwComm_t comm) {
      const std::vector<gwTensor_t> tensors = {Register(comm, "fc.weight", {kRows, kRows}, spec),
                                               Register(comm, "fc.bias", {kBias}, spec)};
      for (uint64_t step = 0; step < 3; ++step) {
        const int before = Operations(comm);
        const auto outs = Step(comm, rank, step, tensors, {kRows * kRows, kBias});
        EXPECT_EQ(Operations(comm), before + 1);
        EXPECT_TRUE(outs[1] == SumOfGradients(step, kBias)) << "the bias is exact";
        EXPECT_FALSE(outs[0] == SumOfGradients(step, kRows * kRows)) << "the matrix is not";
      }
    });
  }
}

// The state of the first shape is of no use to the second, and must not get there.
TEST(LowRank, AMatrixOfAnotherShapeBeginsAnew) {
  constexpr int64_t kElems = 40 * 60;
  constexpr uint64_t kStep = 2;
  for (const char* spec : {"acp(rank=3)", "powersgd(rank=3)"}) {
    SCOPED_TRACE(spec);
    std::vector<std::vector<float>> fresh(kRanks);
    RunRanks(kRanks, "", [&](int rank, gwComm_t comm) {
      const gwTensor_t tensor = Register(comm, "weight", {60, 40}, spec);
      fresh[rank] = Step(comm, rank, kStep, {tensor}, {kElems})[0];
    });
    RunRanks(kRanks, "", [&](int rank, gwComm_t comm) {
      const gwTensor_t first = Register(comm, "weight", {40, 60}, spec);
      for (uint64_t step = 0; step < kStep; ++step) (void)Step(comm, rank, step, {first}, {kElems});
      const int64_t turned[] = {60, 40};
      gwTensor_t second = nullptr;
      EXPECT_EQ(gwTensorRegister(comm, "weight", turned, 2, gwFloat32, nullptr, &second),
                gwInvalidArgument)
          << "while the first is there";
      ASSERT_EQ(gwTensorDeregister(first), gwSuccess) << gwGetLastError(comm);
      second = Register(comm, "weight", {60, 40}, spec);
      EXPECT_TRUE(Step(comm, rank, kStep, {second}, {kElems})[0] == fresh[rank]);
    });
  }
}

// Rounds of some KiB want few messages, however large the matrix is.
TEST(LowRank, RoundsAreSummedByAnAlgorithmOfTheirSize) {
  constexpr int kManyRanks = 10;
  constexpr int64_t kSide = 512;
  RunRanks(kManyRanks, "", [](int rank, gwComm_t comm) {
    const auto algorithm_of = [&](const char* name, const char* spec) {
      (void)Step(comm, rank, 1, {Register(comm, name, {kSide, kSide}, spec)}, {kSide * kSide});
      return StatsText(comm);
    };
    const std::string exact = algorithm_of("exact", "none");
    EXPECT_EQ(exact.find("recursive_doubling"), exact.npos) << exact;
    const std::string low_rank = algorithm_of("low rank", "powersgd(rank=4)");
    EXPECT_NE(low_rank.find("recursive_doubling"), low_rank.npos) << low_rank;
  });
}

}  // namespace
}  // namespace gradwire
