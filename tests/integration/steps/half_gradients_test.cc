// float16 gradients: sums that are too large for their type, and averages that are not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/float16.h"
#include "gradwire/gradwire.h"
#include "tests/lib/capi_ranks.h"

namespace gradwire {
namespace {

constexpr int kRanks = 2;
constexpr int64_t kElems = 2048;
constexpr float kLarge = 40000;  // twice as much is an infinity

// gwAllReduceTensor or gwReduceScatterTensor.
using Call = gwResult_t (*)(gwTensor_t, const void*, void*, gwRedOp_t, gwStream_t, gwRequest_t*);

struct Case {
  Call call;
  const char* spec;
};

struct Stepped {
  gwStepOutcome_t outcome = gwStepAborted;
  float out = 0;  // the first element
};

// A step of one tensor, all elements of which are kLarge on all ranks.
Stepped Step(gwComm_t comm, const Case& c, gwRedOp_t op) {
  gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
  config.spec = c.spec;
  gwTensor_t tensor = nullptr;
  gwRequest_t request = nullptr;
  Stepped stepped;
  std::vector<uint16_t> grad(kElems, Fp16FromFloat(kLarge)), out(kElems);
  EXPECT_EQ(gwTensorRegister(comm, "w", &kElems, 1, gwFloat16, &config, &tensor), gwSuccess);
  EXPECT_EQ(gwStepBegin(comm, 1), gwSuccess);
  EXPECT_EQ(c.call(tensor, grad.data(), out.data(), op, nullptr, &request), gwSuccess)
      << gwGetLastError(comm);
  EXPECT_EQ(gwRequestWait(request, -1), gwSuccess) << gwGetLastError(comm);
  EXPECT_EQ(gwRequestFree(request), gwSuccess);
  EXPECT_EQ(gwStepEnd(comm, &stepped.outcome), gwSuccess) << gwGetLastError(comm);
  EXPECT_EQ(gwTensorDeregister(tensor), gwSuccess);
  stepped.out = FloatFromFp16(out[0]);
  return stepped;
}

// Whatever makes them: under nonfinite=skip no rank uses them.
TEST(HalfGradients, SumsThatAreTooLargeAreNotFinite) {
  constexpr Case kCases[] = {{gwAllReduceTensor, "none"},
                             {gwAllReduceTensor, "fp16"},
                             {gwAllReduceTensor, "bf16"},
                             {gwAllReduceTensor, "qsgd(bits=8)"},
                             {gwAllReduceTensor, "efsign"},
                             {gwAllReduceTensor, "qsgd(bits=8,sum=carrier)"},
                             {gwReduceScatterTensor, "none"},
                             {gwReduceScatterTensor, "fp16"},
                             {gwReduceScatterTensor, "qsgd(bits=8)"}};
  RunRanks(kRanks, "nonfinite=skip", [&](int, gwComm_t comm) {
    for (const Case& c : kCases) {
      const bool scatters = c.call == gwReduceScatterTensor;
      EXPECT_EQ(Step(comm, c, gwSum).outcome, gwStepSkipped)
          << c.spec << (scatters ? ", scattered" : "");
    }
  });
}

// Codecs are summed in float32 and divided before the result is made a float16; so is what is
// scattered without one.
TEST(HalfGradients, AveragesOverflowOnlyWhereTheyAreTooLarge) {
  constexpr Case kCases[] = {
      {gwAllReduceTensor, "bf16"},       {gwAllReduceTensor, "qsgd(bits=8)"},
      {gwAllReduceTensor, "efsign"},     {gwReduceScatterTensor, "none"},
      {gwReduceScatterTensor, "fp16"},   {gwReduceScatterTensor, "bf16"},
      {gwReduceScatterTensor, "efsign"}, {gwReduceScatterTensor, "qsgd(bits=8)"}};
  RunRanks(kRanks, "nonfinite=skip", [&](int, gwComm_t comm) {
    for (const Case& c : kCases) {
      const Stepped stepped = Step(comm, c, gwAvg);
      EXPECT_EQ(stepped.outcome, gwStepCommitted) << c.spec;
      EXPECT_NEAR(stepped.out, kLarge, 0x1p-8 * kLarge) << c.spec;
    }
  });
}

// A step of `tensor`, committed; the sum.
std::vector<float> SumOf(gwComm_t comm, gwTensor_t tensor, uint64_t step,
                         const std::vector<float>& values, float loss_scale = 1) {
  std::vector<uint16_t> halves(values.size());
  std::transform(values.begin(), values.end(), halves.begin(), Fp16FromFloat);
  gwRequest_t request = nullptr;
  gwStepOutcome_t outcome = gwStepAborted;
  EXPECT_EQ(gwStepBegin(comm, step), gwSuccess);
  EXPECT_EQ(gwStepSetLossScale(comm, loss_scale), gwSuccess);
  EXPECT_EQ(gwAllReduceTensor(tensor, halves.data(), halves.data(), gwSum, nullptr, &request),
            gwSuccess)
      << gwGetLastError(comm);
  EXPECT_EQ(gwRequestWait(request, -1), gwSuccess) << gwGetLastError(comm);
  EXPECT_EQ(gwRequestFree(request), gwSuccess);
  EXPECT_EQ(gwStepEnd(comm, &outcome), gwSuccess);
  EXPECT_EQ(outcome, gwStepCommitted);
  std::vector<float> sum(values.size());
  std::transform(halves.begin(), halves.end(), sum.begin(), FloatFromFp16);
  return sum;
}

gwTensor_t RegisterHalves(gwComm_t comm, const char* spec) {
  gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
  config.spec = spec;
  gwTensor_t tensor = nullptr;
  EXPECT_EQ(gwTensorRegister(comm, "w", &kElems, 1, gwFloat16, &config, &tensor), gwSuccess)
      << gwGetLastError(comm);
  return tensor;
}

// Without the scale they would be far below what a float16 holds.
TEST(HalfGradients, SmallOnesArriveUnderALossScale) {
  constexpr float kTiny = 5 * 0x1p-24f;  // 5 times the smallest number there is
  for (const char* spec : {"none", "fp16"}) {
    for (const float loss_scale : {65536.0f, 50'000.0f}) {
      SCOPED_TRACE(std::string(spec) + ", loss scale " + std::to_string(loss_scale));
      RunRanks(kRanks, "", [&](int, gwComm_t comm) {
        gwTensor_t tensor = RegisterHalves(comm, spec);
        const std::vector<float> grad(kElems, kTiny);
        EXPECT_EQ(SumOf(comm, tensor, 1, grad, loss_scale),
                  std::vector<float>(kElems, kRanks * kTiny));
      });
    }
  }
}

// In units of the sum, and is scaled up to go along.
TEST(HalfGradients, WhatAnotherCodecKeptGoesAlongUnderALossScale) {
  constexpr float kLossScale = 65536;
  RunRanks(kRanks, "", [](int rank, gwComm_t comm) {
    gwTensor_t tensor = RegisterHalves(comm, "qsgd(bits=4,feedback=on)");
    std::vector<float> grad(kElems), expected(kElems);
    for (int64_t i = 0; i < kElems; ++i) {
      grad[i] = static_cast<float>((i * (7 + 6 * rank)) % 11 - 5) / 4;
      expected[i] = static_cast<float>((i * 7) % 11 + (i * 13) % 11 - 10) / 4;
    }
    const std::vector<float> first = SumOf(comm, tensor, 1, grad, kLossScale);
    ASSERT_EQ(gwTensorSetSpec(tensor, "fp16"), gwSuccess);
    const std::vector<float> rest = SumOf(comm, tensor, 2, std::vector<float>(kElems), kLossScale);
    float largest_rest = 0;
    for (int64_t i = 0; i < kElems; ++i) {
      ASSERT_NEAR(first[i] + rest[i], expected[i], 0.01) << i;
      largest_rest = std::max(largest_rest, std::fabs(rest[i]));
    }
    EXPECT_GT(largest_rest, 0.05f) << "something was kept back";
    const std::vector<float> after = SumOf(comm, tensor, 3, std::vector<float>(kElems), kLossScale);
    EXPECT_EQ(after, std::vector<float>(kElems)) << "and is gone";
  });
}

// What a step keeps back comes later, also if between them a sum is infinite everywhere.
TEST(HalfGradients, WhatIsKeptBackOutlivesASumThatIsTooLarge) {
  constexpr int64_t kShape[] = {32, kElems / 32};
  for (const char* spec :
       {"qsgd(bits=4,feedback=on)", "qsgd(bits=4,sum=carrier,feedback=on)", "powersgd(rank=1)"}) {
    SCOPED_TRACE(spec);
    RunRanks(kRanks, "", [&](int rank, gwComm_t comm) {
      gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
      config.spec = spec;
      gwTensor_t tensor = nullptr;
      ASSERT_EQ(gwTensorRegister(comm, "w", kShape, 2, gwFloat16, &config, &tensor), gwSuccess)
          << gwGetLastError(comm);
      std::vector<float> grad(kElems), expected(kElems);
      for (int64_t i = 0; i < kElems; ++i) {
        const auto of_rank = [&](int64_t r) {
          return static_cast<float>((i * (7 + 6 * r)) % 11 - 5) / 4;
        };
        grad[i] = of_rank(rank);
        expected[i] = of_rank(0) + of_rank(1);
      }
      const std::vector<float> first = SumOf(comm, tensor, 1, grad);
      const std::vector<float> lost = SumOf(comm, tensor, 2, std::vector<float>(kElems, kLarge));
      ASSERT_EQ(gwTensorSetSpec(tensor, "none"), gwSuccess);
      const std::vector<float> rest = SumOf(comm, tensor, 3, std::vector<float>(kElems));
      float largest_rest = 0;
      for (int64_t i = 0; i < kElems; ++i) {
        ASSERT_TRUE(std::isinf(lost[i])) << i;
        ASSERT_NEAR(first[i] + rest[i], expected[i], 0.01) << i;
        largest_rest = std::max(largest_rest, std::fabs(rest[i]));
      }
      EXPECT_GT(largest_rest, 0.1f) << "something was kept back";
    });
  }
}

}  // namespace
}  // namespace gradwire
