// Calls that find no memory.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>

#include "gradwire/gradwire.h"
#include "tests/lib/allocation_count.h"
#include "tests/lib/capi_ranks.h"

namespace gradwire {
namespace {

// Of each call one allocation fails, the next one each time, until a call is through. `call` gets
// how many are spared. How many calls failed, all of which must say why.
int64_t FailuresUntilThrough(gwComm_t comm, const std::function<gwResult_t(int64_t)>& call) {
  constexpr int64_t kMost = 10'000;
  for (int64_t failures = 0; failures < kMost; ++failures) {
    const gwResult_t result = call(failures);
    if (result == gwSuccess) return failures;
    EXPECT_EQ(result, gwSystemError) << failures;
    const std::string text = gwGetLastError(comm);
    EXPECT_NE(text.find("out of memory"), std::string::npos) << failures << ": " << text;
    if (testing::Test::HasFailure()) break;
  }
  ADD_FAILURE() << "no call was through";
  return 0;
}

constexpr char kName[] = "a name that needs memory of its own";
constexpr int64_t kShape[] = {2, 3};

gwResult_t Register(gwComm_t comm, gwTensor_t* tensor) {
  return gwTensorRegister(comm, kName, kShape, 2, gwFloat32, nullptr, tensor);
}

TEST(CapiMemory, ATensorThatFoundNoneMayBeRegisteredAgain) {
  RunRanks(1, "", [](int, gwComm_t comm) {
    gwTensor_t tensor = nullptr;
    const int64_t failures = FailuresUntilThrough(comm, [&](int64_t spared) {
      const NoMemory none(spared);
      return Register(comm, &tensor);
    });
    EXPECT_GT(failures, 0);
    float values[6] = {1, 2, 3, 4, 5, 6};
    gwRequest_t request = nullptr;
    ASSERT_EQ(gwAllReduceTensor(tensor, values, values, gwSum, nullptr, &request), gwSuccess)
        << gwGetLastError(comm);
    EXPECT_EQ(gwRequestWait(request, -1), gwSuccess) << gwGetLastError(comm);
    EXPECT_EQ(gwRequestFree(request), gwSuccess);
  });
}

TEST(CapiMemory, AGroupOfTensorsThatFindsNoneIsAnError) {
  bool is_through = false;
  for (int64_t spared = 0; !is_through; ++spared) {
    RunRanks(1, "abort_timeout_ms=1000", [&](int, gwComm_t comm) {
      gwTensor_t tensor = nullptr;
      ASSERT_EQ(Register(comm, &tensor), gwSuccess) << gwGetLastError(comm);
      float values[6] = {};
      const void* send = values;
      void* recv = values;
      gwRequest_t request = nullptr;
      gwResult_t result = gwSuccess;
      {
        const NoMemory none(spared);
        result = gwAllReduceTensors(1, &tensor, &send, &recv, gwSum, nullptr, &request);
      }
      is_through = result == gwSuccess;
      if (!is_through) {
        EXPECT_EQ(result, gwSystemError) << spared;
        EXPECT_NE(std::string(gwGetLastError(comm)).find("out of memory"), std::string::npos)
            << gwGetLastError(comm);
        EXPECT_EQ(request, nullptr);
        return;
      }
      EXPECT_EQ(gwRequestWait(request, -1), gwSuccess) << gwGetLastError(comm);
      EXPECT_EQ(gwRequestFree(request), gwSuccess);
    });
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

// Its buffers are the caller's again, also where there was memory for the first of its operations.
TEST(CapiMemory, AGroupThatFoundNoneMayBeSubmittedAgain) {
  RunRanks(1, "", [](int, gwComm_t comm) {
    gwTensor_t tensors[2] = {};
    ASSERT_EQ(Register(comm, &tensors[0]), gwSuccess) << gwGetLastError(comm);
    ASSERT_EQ(
        gwTensorRegister(comm, "of another type", kShape, 2, gwBfloat16, nullptr, &tensors[1]),
        gwSuccess)
        << gwGetLastError(comm);
    float floats[6] = {};
    uint16_t halves[6] = {};
    const void* send[2] = {floats, halves};
    void* recv[2] = {floats, halves};
    gwRequest_t request = nullptr;
    const int64_t failures = FailuresUntilThrough(comm, [&](int64_t spared) {
      const NoMemory none(spared);
      return gwAllReduceTensors(2, tensors, send, recv, gwSum, nullptr, &request);
    });
    EXPECT_GT(failures, 0);
    EXPECT_EQ(gwRequestWait(request, -1), gwSuccess) << gwGetLastError(comm);
    EXPECT_EQ(gwRequestFree(request), gwSuccess);
  });
}

TEST(CapiMemory, ACallThatFindsNoneNamesItself) {
  RunRanks(1, "", [](int, gwComm_t comm) {
    gwTensor_t tensor = nullptr;
    {
      const NoMemory none(0);
      EXPECT_EQ(Register(comm, &tensor), gwSystemError);
    }
    EXPECT_EQ(std::string(gwGetLastError(comm))
                  .find("system error: out of memory; rank 0; "
                        "operation gwTensorRegister"),
              0u)
        << gwGetLastError(comm);
  });
}

// Nor is there any for the text.
TEST(CapiMemory, WithoutAnyAtAllThereIsAShortText) {
  RunRanks(1, "", [](int, gwComm_t comm) {
    gwTensor_t tensor = nullptr;
    gwUniqueId id;
    {
      const NoMemory none(0, INT64_MAX);
      EXPECT_EQ(Register(comm, &tensor), gwSystemError);
      EXPECT_EQ(gwGetUniqueId(&id), gwSystemError);
      EXPECT_STREQ(gwGetLastError(comm), "out of memory");
      EXPECT_STREQ(gwGetLastError(nullptr), "out of memory");
    }
    EXPECT_EQ(Register(comm, &tensor), gwSuccess) << gwGetLastError(comm);
  });
}

// Its calls are forgotten, and keep no communicator from being destroyed.
TEST(CapiMemory, AGroupThatFindsNoneIsOver) {
  RunRanks(1, "", [](int, gwComm_t comm) {
    float value = 1;
    for (int64_t spared = 0; spared < 4; ++spared) {
      ASSERT_EQ(gwGroupStart(), gwSuccess);
      ASSERT_EQ(gwAllReduce(&value, &value, 1, gwFloat32, gwSum, comm, nullptr), gwSuccess);
      const NoMemory none(spared);
      (void)gwGroupEnd();
    }
    EXPECT_EQ(gwGroupEnd(), gwInvalidUsage) << "none is open";
  });
}

}  // namespace
}  // namespace gradwire
