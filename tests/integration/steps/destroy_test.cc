// gwCommDestroy is bounded with the default time-outs, whatever the rank had begun and whatever the
// others fail to do.
#include <gtest/gtest.h>

#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "gradwire/gradwire.h"

namespace gradwire {
namespace {

// The default abort_timeout_ms.
constexpr int64_t kBoundNs = 5 * kNsPerSecond;

constexpr int64_t kElems = 1000;

struct Begun {
  gwRequest_t request = nullptr;
  std::vector<float> memory = std::vector<float>(kElems, 1.0f);
};

struct Situation {
  const char* name;
  std::function<void(gwComm_t, gwTensor_t, Begun*)> begin;
};

void Submit(gwTensor_t tensor, Begun* begun) {
  float* const data = begun->memory.data();
  EXPECT_EQ(gwAllReduceTensor(tensor, data, data, gwSum, nullptr, &begun->request), gwSuccess);
}

const Situation kSituations[] = {
    {"nothing", [](gwComm_t, gwTensor_t, Begun*) {}},
    {"an operation", [](gwComm_t, gwTensor_t tensor, Begun* begun) { Submit(tensor, begun); }},
    {"a step",
     [](gwComm_t comm, gwTensor_t tensor, Begun* begun) {
       EXPECT_EQ(gwStepBegin(comm, 1), gwSuccess);
       Submit(tensor, begun);
     }},
    {"a step whose outcome it did not wait for", [](gwComm_t comm, gwTensor_t, Begun*) {
       EXPECT_EQ(gwStepBegin(comm, 1), gwSuccess);
       EXPECT_EQ(gwStepEnd(comm, nullptr), gwSuccess) << gwGetLastError(comm);
     }}};

struct Start {
  gwUniqueId id;
  const char* settings;
};

void StartRank(const Start& start, int rank, gwComm_t* comm, gwTensor_t* tensor) {
  gwConfig_t config = GW_CONFIG_INITIALIZER;
  config.settings = start.settings;
  ASSERT_EQ(gwCommInitRankConfig(comm, 2, start.id, rank, &config), gwSuccess)
      << gwGetLastError(nullptr);
  ASSERT_EQ(gwTensorRegister(*comm, "w", &kElems, 1, gwFloat32, nullptr, tensor), gwSuccess);
}

// `leaving` destroys; the other rank calls nothing until that has returned.
void ExpectBounded(const Situation& situation, int leaving, const char* settings) {
  SCOPED_TRACE(situation.name);
  Start start = {.id = {}, .settings = settings};
  ASSERT_EQ(gwGetUniqueId(&start.id), gwSuccess) << gwGetLastError(nullptr);
  std::latch has_left(1);
  std::thread silent([&] {
    gwComm_t comm = nullptr;
    gwTensor_t tensor = nullptr;
    StartRank(start, 1 - leaving, &comm, &tensor);
    has_left.wait();
    EXPECT_EQ(gwCommDestroy(comm), gwSuccess);
  });
  gwComm_t comm = nullptr;
  gwTensor_t tensor = nullptr;
  StartRank(start, leaving, &comm, &tensor);
  Begun begun;
  situation.begin(comm, tensor, &begun);
  const int64_t start_ns = SteadyClock().NowNs();
  EXPECT_EQ(gwCommDestroy(comm), gwSuccess);
  EXPECT_LT(SteadyClock().NowNs() - start_ns, kBoundNs)
      << "rank " << leaving << " had begun " << situation.name;
  EXPECT_EQ(gwRequestFree(begun.request), gwSuccess) << "it must be complete";
  has_left.count_down();
  silent.join();
}

TEST(Destroy, IsBoundedWhateverTheOthersDo) {
  std::vector<std::thread> jobs;  // at the same time: each takes seconds
  for (const Situation& situation : kSituations) {
    for (const int leaving : {0, 1}) {
      jobs.emplace_back([&situation, leaving] {
        ExpectBounded(situation, leaving, "transport=loopback; debug=none");
      });
    }
  }
  for (std::thread& job : jobs) job.join();
}

// The time for leaving and the time for taking back are over together.
TEST(Destroy, CompletesRequestsHoweverLateItIs) {
  constexpr int kTries = 20;
  for (const Situation& situation : kSituations) {
    for (int i = 0; i < kTries; ++i) {
      ExpectBounded(situation, i % 2, "transport=loopback; debug=none; abort_timeout_ms=1");
    }
  }
}

TEST(Finalize, TellsOfAStepThatIsOpen) {
  std::string log;
  const auto keep = [](void* user, gwLogLevel_t, const char* line) {
    *static_cast<std::string*>(user) += line;
  };
  ASSERT_EQ(gwSetLogCallback(keep, &log), gwSuccess);
  Start start = {.id = {}, .settings = "transport=loopback; debug=warn"};
  ASSERT_EQ(gwGetUniqueId(&start.id), gwSuccess) << gwGetLastError(nullptr);
  gwConfig_t config = GW_CONFIG_INITIALIZER;
  config.settings = start.settings;
  gwComm_t comm = nullptr;
  ASSERT_EQ(gwCommInitRankConfig(&comm, 1, start.id, 0, &config), gwSuccess);
  ASSERT_EQ(gwStepBegin(comm, 7), gwSuccess) << gwGetLastError(comm);
  EXPECT_EQ(gwCommFinalize(comm), gwSuccess) << gwGetLastError(comm);
  EXPECT_NE(log.find("step 7 is open"), std::string::npos) << log;
  EXPECT_EQ(gwCommDestroy(comm), gwSuccess);
  EXPECT_EQ(gwSetLogCallback(nullptr, nullptr), gwSuccess);
}

// Nobody has looked at what was submitted, and the other rank comes too.
TEST(Finalize, CompletesWhatWasSubmittedJustBefore) {
  Start start = {.id = {}, .settings = "transport=loopback"};
  ASSERT_EQ(gwGetUniqueId(&start.id), gwSuccess) << gwGetLastError(nullptr);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&start, rank] {
      gwComm_t comm = nullptr;
      gwTensor_t tensor = nullptr;
      StartRank(start, rank, &comm, &tensor);
      Begun begun;
      Submit(tensor, &begun);
      EXPECT_EQ(gwCommFinalize(comm), gwSuccess) << gwGetLastError(comm);
      int done = 0;
      EXPECT_EQ(gwRequestTest(begun.request, &done), gwSuccess);
      EXPECT_EQ(done, 1);
      EXPECT_EQ(begun.memory, std::vector<float>(kElems, 2.0f));
      EXPECT_EQ(gwRequestFree(begun.request), gwSuccess);
      EXPECT_EQ(gwCommDestroy(comm), gwSuccess);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace
}  // namespace gradwire
