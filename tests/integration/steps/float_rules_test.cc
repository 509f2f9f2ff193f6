// Ranks whose programs have set other rules of floating-point arithmetic for themselves get the
// same bits as those that have not.
#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/lib/capi_ranks.h"

namespace gradwire {
namespace {

constexpr int kRanks = 2;
constexpr int64_t kRows = 32, kColumns = 40;
constexpr unsigned int kFlushToZero = 0x8040;  // FTZ and DAZ
constexpr unsigned int kRoundUp = 0x4000;

// Of each rank: sums of gradients that are subnormal or nearly, exact and compressed, inside a step
// and outside. Rank 1 computes by `rules`.
std::vector<std::vector<float>> SumsWhere(unsigned int rules) {
  std::vector<std::vector<float>> sums(kRanks);
  RunRanks(kRanks, "slice_elems=512; algorithm=recursive_doubling", [&](int rank, gwComm_t comm) {
    const unsigned int before = _mm_getcsr();
    const unsigned int mine = before | (rank == 1 ? rules : 0);
    std::vector<float> gradient(kRows * kColumns), sum(gradient.size());
    for (size_t i = 0; i < gradient.size(); ++i) {
      const auto odd = static_cast<float>((i * 37 + rank * 11) % 101);
      gradient[i] = odd * std::numeric_limits<float>::min() / 64;
    }
    std::vector<gwTensor_t> tensors;
    for (const char* spec : {"none", "powersgd(rank=2)", "qsgd(bits=4,feedback=on)"}) {
      const int64_t shape[] = {kRows, kColumns};
      gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
      config.spec = spec;
      const std::string name = "w" + std::to_string(tensors.size());
      ASSERT_EQ(gwTensorRegister(comm, name.c_str(), shape, 2, gwFloat32, &config,
                                 &tensors.emplace_back()),
                gwSuccess)
          << gwGetLastError(comm);
    }
    _mm_setcsr(mine);
    const auto keep = [&](gwResult_t result) {
      ASSERT_EQ(result, gwSuccess) << gwGetLastError(comm);
      sums[rank].insert(sums[rank].end(), sum.begin(), sum.end());
    };
    const auto sum_tensors = [&] {
      for (const gwTensor_t tensor : tensors) {
        gwRequest_t request = nullptr;
        ASSERT_EQ(gwAllReduceTensor(tensor, gradient.data(), sum.data(), gwSum, nullptr, &request),
                  gwSuccess);
        keep(gwRequestWait(request, -1));
        EXPECT_EQ(gwRequestFree(request), gwSuccess);
      }
    };
    keep(gwAllReduce(gradient.data(), sum.data(), sum.size(), gwFloat32, gwSum, comm, nullptr));
    for (uint64_t step = 0; step < 3; ++step) {
      gwStepOutcome_t outcome = gwStepAborted;
      EXPECT_EQ(gwStepBegin(comm, step), gwSuccess);
      sum_tensors();
      EXPECT_EQ(gwStepEnd(comm, &outcome), gwSuccess);
      EXPECT_EQ(outcome, gwStepCommitted) << gwGetLastError(comm);
      sum_tensors();
    }
    EXPECT_EQ(_mm_getcsr() & (kFlushToZero | kRoundUp), mine & (kFlushToZero | kRoundUp))
        << "the caller's rules are its own";
    _mm_setcsr(before);
  });
  return sums;
}

TEST(FloatRules, OfTheCallerDoNotCount) {
  const std::vector<std::vector<float>> plain = SumsWhere(0);
  EXPECT_EQ(plain[0], plain[1]);
  for (const unsigned int rules : {kFlushToZero, kRoundUp, kFlushToZero | kRoundUp}) {
    SCOPED_TRACE(rules);
    EXPECT_EQ(SumsWhere(rules), plain);
  }
}

}  // namespace
}  // namespace gradwire
