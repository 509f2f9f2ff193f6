// Ranks that do not call an operation in which others wait, directly or for each other, in virtual
// time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "collectives/schedule.h"
#include "runtime/sim/sim_job.h"

namespace gradwire {
namespace {

using testing::HasSubstr;

constexpr int kFourRanks = 4;
constexpr int64_t kTimeoutNs = 300 * kNsPerMs;
constexpr int64_t kEndNs = 30 * kNsPerSecond;

struct Call {
  Collective collective;
  const char* algorithm;
  int64_t count;
};

constexpr Call kCalls[] = {{Collective::kBarrier, "dissemination", 0},
                           {Collective::kAllReduce, "recursive_doubling", 1},
                           {Collective::kAllReduce, "knomial", 1},
                           // Of several slices.
                           {Collective::kAllReduce, "ring", 8192}};

// The parameters: what is called, and who is late.
class LateCaller : public testing::TestWithParam<std::tuple<Call, int>> {
 protected:
  LateCaller() {
    for (std::vector<float>& values : values_) values.resize(call().count);
  }
  static const Call& call() { return std::get<0>(GetParam()); }
  static int late() { return std::get<1>(GetParam()); }

  std::shared_ptr<Operation> Submit(int rank) {
    auto* const values = reinterpret_cast<std::byte*>(values_[rank].data());
    return job_[rank].SubmitRaw(
        {.collective = call().collective, .send = values, .recv = values, .count = call().count},
        **FindAlgorithm(call().collective, call().algorithm), job_[rank].turn());
  }
  std::vector<std::shared_ptr<Operation>> SubmitAllBut(int without) {
    std::vector<std::shared_ptr<Operation>> operations;
    for (int rank = 0; rank < kFourRanks; ++rank) {
      if (rank != without) operations.push_back(Submit(rank));
    }
    return operations;
  }
  bool RunUntilDone(const std::vector<std::shared_ptr<Operation>>& operations) {
    return job_.RunUntil(
        [&] {
          return std::ranges::all_of(operations, [](const auto& op) { return op->done.load(); });
        },
        kEndNs);
  }

  std::array<std::vector<float>, kFourRanks> values_;
  SimJob job_ = SimJob({.world_size = kFourRanks, .op_timeout_ns = kTimeoutNs});
};

TEST_P(LateCaller, IsNamedByAllWhomeverTheyAwait) {
  ASSERT_TRUE(RunUntilDone(SubmitAllBut(-1))) << "the first is called by all";
  const auto waiting = SubmitAllBut(late());
  const int64_t begin_ns = job_.now_ns();
  ASSERT_TRUE(RunUntilDone(waiting));
  EXPECT_GT(job_.now_ns() - begin_ns, kTimeoutNs);
  EXPECT_LT(job_.now_ns() - begin_ns, 2 * kTimeoutNs);
  const std::string named = "rank " + std::to_string(late()) + " has not called";
  for (const std::shared_ptr<Operation>& operation : waiting) {
    EXPECT_EQ(operation->status.code(), gwTimeout);
    EXPECT_EQ(operation->status.detail().peer, late());
    EXPECT_THAT(operation->status.ToString(), HasSubstr(named));
  }
}

INSTANTIATE_TEST_SUITE_P(Calls, LateCaller,
                         testing::Combine(testing::ValuesIn(kCalls),
                                          testing::Range(0, kFourRanks)));

}  // namespace
}  // namespace gradwire
