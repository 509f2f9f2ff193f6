// Random draws of operations outside steps, where an abort leaves ranks that have done different
// numbers of them: all go on alike, and by numbers that nobody has drawn by.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "runtime/sim/sim_job.h"

namespace gradwire {
namespace {

constexpr int kRanks = 3;
constexpr int64_t kElems = 4096;
constexpr uint32_t kMany = 200'000;  // operations that a training may well do

class OutsideDraws : public testing::Test {
 protected:
  OutsideDraws() {
    for (int r = 0; r < kRanks; ++r) {
      metric_.push_back(job_[r].Register("metric", kElems, DType::kFloat32, "randk(density=0.1)"));
      metric_[r]->free_ops = kMany;
      other_.push_back(job_[r].Register("other", kElems, DType::kFloat32, "qsgd(bits=4)"));
      other_[r]->free_ops = static_cast<uint32_t>(r);
    }
  }

  // Whether all ranks come to the end of a sum outside steps; it fails where they disagree.
  bool Sum(bool disagree) {
    const uint16_t turn = job_[0].turn();
    std::vector<std::vector<float>> values(kRanks, std::vector<float>(kElems, 1));
    Operations operations;
    for (int r = 0; r < kRanks; ++r) {
      auto* data = reinterpret_cast<std::byte*>(values[r].data());
      const SubmittedTensor submitted = {metric_[r], data, data};
      const ReduceOp op = disagree && r == 0 ? ReduceOp::kAvg : ReduceOp::kSum;
      operations.push_back(
          job_[r].SubmitTensors({&submitted, 1}, op, {.turn = turn, .open = false})[0]);
    }
    const auto ended = [&] {
      for (int r = 0; r < kRanks; ++r) {
        if (!operations[r]->done || (disagree && job_[r].turn() == turn)) return false;
      }
      return true;
    };
    EXPECT_TRUE(job_.RunUntil(ended, 600 * kNsPerSecond));
    for (const auto& operation : operations) {
      if (!operation->status.ok()) return false;
    }
    return true;
  }
  void ExpectCounts(uint32_t metric, uint32_t other) {
    for (int r = 0; r < kRanks; ++r) {
      EXPECT_EQ(metric_[r]->free_ops, metric) << "rank " << r;
      EXPECT_EQ(other_[r]->free_ops, other) << "rank " << r;
    }
  }

  SimJob job_{{.world_size = kRanks}};
  std::vector<TensorState*> metric_, other_;
};

TEST_F(OutsideDraws, NeverComeTwiceAfterAnAbort) {
  ASSERT_TRUE(Sum(/*disagree=*/false));
  ASSERT_FALSE(Sum(/*disagree=*/true));
  // The one that failed has drawn, and sent some of what it made.
  ExpectCounts(kMany + 2, kMany + 2);
  ASSERT_TRUE(Sum(/*disagree=*/false)) << "all ranks draw alike";
  ExpectCounts(kMany + 3, kMany + 2);
  ASSERT_FALSE(Sum(/*disagree=*/true));
  ExpectCounts(kMany + 4, kMany + 4);
}

}  // namespace
}  // namespace gradwire
