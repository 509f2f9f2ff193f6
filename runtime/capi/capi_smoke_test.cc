// Ranks as threads of one process, through the C API alone.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gradwire/gradwire.h"

namespace {

using RankBody = std::function<void(int rank, int world_size, gwComm_t comm)>;

void RunRanks(int world_size, const char* settings, const RankBody& body) {
  gwUniqueId id;
  ASSERT_EQ(gwGetUniqueId(&id), gwSuccess) << gwGetLastError(nullptr);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      gwConfig_t config = GW_CONFIG_INITIALIZER;
      config.settings = settings;
      gwComm_t comm = nullptr;
      const gwResult_t result = gwCommInitRankConfig(&comm, world_size, id, rank, &config);
      ASSERT_EQ(result, gwSuccess) << gwGetLastError(nullptr);
      body(rank, world_size, comm);
      EXPECT_EQ(gwCommDestroy(comm), gwSuccess);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CapiSmoke, AllReducesExactly) {
  for (int n : {1, 2, 3, 4}) {
    RunRanks(n, "transport=loopback", [](int rank, int world_size, gwComm_t comm) {
      for (size_t count : {size_t{0}, size_t{1}, size_t{1000}, size_t{1} << 20}) {
        std::vector<float> send(count), recv(count);
        for (size_t i = 0; i < count; ++i)
          send[i] = static_cast<float>(i % 1000) + static_cast<float>(rank);
        ASSERT_EQ(gwAllReduce(send.data(), recv.data(), count, gwFloat32, gwSum, comm, nullptr),
                  gwSuccess)
            << gwGetLastError(comm);
        const float ranks = static_cast<float>(world_size * (world_size - 1) / 2);
        for (size_t i = 0; i < count; ++i) {
          ASSERT_EQ(recv[i], static_cast<float>(i % 1000) * static_cast<float>(world_size) + ranks)
              << i;
        }
      }
    });
  }
}

// Whatever has become of the others: what the caller can mend comes first.
TEST(CapiSmoke, AMisspeltSpecIsToldBeforeTheEndOfTheJob) {
  RunRanks(1, "transport=loopback", [](int, int, gwComm_t comm) {
    ASSERT_EQ(gwCommAbort(comm), gwSuccess);
    const int64_t shape[] = {4};
    gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
    gwTensor_t tensor = nullptr;
    EXPECT_EQ(gwTensorRegister(comm, "w", shape, 1, gwFloat32, &config, &tensor), gwAborted);
    config.spec = "qsgdd(bits=4)";
    EXPECT_EQ(gwTensorRegister(comm, "w", shape, 1, gwFloat32, &config, &tensor),
              gwInvalidArgument);
    EXPECT_NE(std::string(gwGetLastError(comm)).find("tensor 'w'"), std::string::npos)
        << gwGetLastError(comm);
  });
}

TEST(CapiSmoke, TrainsInStepsWithResiduals) {
  RunRanks(3, "transport=loopback", [](int rank, int world_size, gwComm_t comm) {
    constexpr int64_t kElems = 5000;
    const int64_t shape[] = {50, 100};
    gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
    config.spec = "qsgd(bits=4,feedback=on)";
    gwTensor_t tensor = nullptr;
    ASSERT_EQ(gwTensorRegister(comm, "w", shape, 2, gwFloat32, &config, &tensor), gwSuccess)
        << gwGetLastError(comm);
    std::vector<float> grad(kElems), out(kElems);
    std::vector<double> total(kElems), expected(kElems);
    for (uint64_t step = 0; step < 20; ++step) {
      for (int64_t i = 0; i < kElems; ++i) {
        grad[i] = std::sin(static_cast<float>(i + 1) * (1.0f + static_cast<float>(rank)));
        for (int r = 0; r < world_size; ++r)
          expected[i] += std::sin(static_cast<float>(i + 1) * (1.0f + static_cast<float>(r)));
      }
      ASSERT_EQ(gwStepBegin(comm, step), gwSuccess) << gwGetLastError(comm);
      gwRequest_t request = nullptr;
      ASSERT_EQ(gwAllReduceTensor(tensor, grad.data(), out.data(), gwSum, nullptr, &request),
                gwSuccess)
          << gwGetLastError(comm);
      ASSERT_EQ(gwRequestWait(request, -1), gwSuccess) << gwGetLastError(comm);
      ASSERT_EQ(gwRequestFree(request), gwSuccess);
      gwStepOutcome_t outcome = gwStepAborted;
      ASSERT_EQ(gwStepEnd(comm, &outcome), gwSuccess) << gwGetLastError(comm);
      ASSERT_EQ(outcome, gwStepCommitted) << gwGetLastError(comm);
      for (int64_t i = 0; i < kElems; ++i) total[i] += out[i];
    }
    // Error feedback: what is missing after 20 steps is one step's residual, not twenty steps'
    // error.
    double error2 = 0, energy = 0;
    for (int64_t i = 0; i < kElems; ++i) {
      error2 += (total[i] - expected[i]) * (total[i] - expected[i]);
      energy += expected[i] * expected[i];
    }
    EXPECT_LT(std::sqrt(error2 / energy), 0.05);
  });
}

TEST(CapiSmoke, RanksThatDisagreeAllHearWhy) {
  RunRanks(3, "transport=loopback", [](int rank, int, gwComm_t comm) {
    std::vector<float> data(1000);
    const size_t count = rank == 1 ? 500 : 1000;
    EXPECT_EQ(gwAllReduce(data.data(), data.data(), count, gwFloat32, gwSum, comm, nullptr),
              gwMismatch);
    const std::string text = gwGetLastError(comm);
    EXPECT_NE(text.find("count"), std::string::npos) << text;
    EXPECT_NE(text.find("500"), std::string::npos) << text;
    EXPECT_NE(text.find("1000"), std::string::npos) << text;
    // The communicator is usable.
    EXPECT_EQ(gwAllReduce(data.data(), data.data(), 1000, gwFloat32, gwSum, comm, nullptr),
              gwSuccess)
        << gwGetLastError(comm);
  });
}

TEST(CapiSmoke, LastErrorsAreOneLineWhateverTheCallerPassed) {
  RunRanks(2, "transport=loopback", [](int rank, int, gwComm_t comm) {
    ASSERT_EQ(gwStepBegin(comm, 1), gwSuccess);
    if (rank == 0) {
      EXPECT_EQ(gwStepAbort(comm, "out of\nmemory"), gwSuccess);
    } else {
      gwStepOutcome_t outcome = gwStepCommitted;
      EXPECT_EQ(gwStepEnd(comm, &outcome), gwSuccess);
      EXPECT_EQ(outcome, gwStepAborted);
      EXPECT_NE(std::string(gwGetLastError(comm)).find("out of memory"), std::string::npos)
          << gwGetLastError(comm);
    }
    gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
    config.spec = "no\ncodec";
    gwTensor_t tensor = nullptr;
    EXPECT_EQ(gwTensorRegister(comm, "w", nullptr, 0, gwFloat32, &config, &tensor),
              gwInvalidArgument);
    EXPECT_EQ(std::string(gwGetLastError(comm)).find('\n'), std::string::npos)
        << gwGetLastError(comm);
  });
}

// Holds the engine in the log: the line is written by who ends the communicator.
struct HeldEngine {
  std::promise<void> held, may_go;
  bool holds = false, went_in_time = false;

  static void OnLine(void* user, gwLogLevel_t, const char*) {
    auto* const self = static_cast<HeldEngine*>(user);
    if (std::exchange(self->holds, true)) return;
    self->held.set_value();
    self->went_in_time =
        self->may_go.get_future().wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  }
};

TEST(CapiSmoke, AskingForACompleteRequestDoesNotWaitForTheEngine) {
  RunRanks(1, "transport=loopback", [](int, int, gwComm_t comm) {
    gwTensor_t tensor = nullptr;
    ASSERT_EQ(gwTensorRegister(comm, "w", nullptr, 0, gwFloat32, nullptr, &tensor), gwSuccess);
    float value = 1;
    gwRequest_t request = nullptr;
    ASSERT_EQ(gwAllReduceTensor(tensor, &value, &value, gwSum, nullptr, &request), gwSuccess);
    ASSERT_EQ(gwRequestWait(request, -1), gwSuccess);
    static HeldEngine engine;  // the log may look at it for a moment more
    ASSERT_EQ(gwSetLogCallback(HeldEngine::OnLine, &engine), gwSuccess);
    std::thread aborting([&] { gwCommAbort(comm); });
    engine.held.get_future().wait();
    int done = 0;
    EXPECT_EQ(gwRequestTest(request, &done), gwSuccess);
    EXPECT_EQ(done, 1);
    engine.may_go.set_value();
    aborting.join();
    ASSERT_EQ(gwSetLogCallback(nullptr, nullptr), gwSuccess);
    EXPECT_TRUE(engine.went_in_time);
    EXPECT_EQ(gwRequestFree(request), gwSuccess);
  });
}

gwResult_t InitUnderTorchrun(const char* settings) {
  gwConfig_t config = GW_CONFIG_INITIALIZER;
  config.settings = settings;
  gwComm_t comm = nullptr;
  const gwResult_t result = gwCommInitEnv(&comm, &config);
  EXPECT_EQ(gwCommDestroy(comm), gwSuccess);
  return result;
}

TEST(CapiSmoke, RankAndWorldSizeMayAskTheLauncher) {
  const std::pair<const char*, const char*> torchrun[] = {
      {"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}};
  for (const auto& [name, value] : torchrun) setenv(name, value, 1);
  EXPECT_EQ(InitUnderTorchrun("rank=-1; world_size=0"), gwSuccess) << gwGetLastError(nullptr);
  setenv("GRADWIRE_RANK", "-1", 1);
  setenv("GRADWIRE_WORLD_SIZE", "0", 1);
  EXPECT_EQ(InitUnderTorchrun(nullptr), gwSuccess) << gwGetLastError(nullptr);
  for (const char* name : {"GRADWIRE_RANK", "GRADWIRE_WORLD_SIZE"}) unsetenv(name);
  for (const auto& [name, value] : torchrun) unsetenv(name);
}

}  // namespace
