// What an engine does with operations that are unlike those of the library.
#include "runtime/engine/engine_core.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/clock.h"
#include "runtime/engine/hungry_operation.h"
#include "runtime/operations/raw_operation.h"
#include "runtime/operations/schedule_cache.h"
#include "runtime/sim/sim_job.h"
#include "transports/faulty/fault_plan.h"

namespace gradwire {
namespace {

constexpr int kRanks = 2;
constexpr int kThreeRanks = 3;

// A slice that has nothing to run.
class DoneSlice final : public SliceOp {
 public:
  StatusOr<SliceAction> Next() override { return SliceAction{.kind = SliceAction::Kind::kDone}; }
  Bytes Memory(const Region& /*region*/) override { return {}; }
  int64_t MessageBytes(const Region& /*region*/) const override { return 0; }
  void Combine(const Step& /*step*/, int64_t /*offset*/, ConstBytes /*fragment*/) override {}
  StatusOr<bool> Compute(const Step& /*step*/, int64_t* /*cursor*/) override { return true; }
};

class DoneOperation final : public Operation {
 public:
  explicit DoneOperation(int64_t slices) : slices_(slices) {}
  OpText Text() const override { return {{"operation", "nothing"}}; }
  int64_t slices() const override { return slices_; }
  StatusOr<std::unique_ptr<SliceOp>> MakeSlice(int64_t /*index*/) override {
    return std::unique_ptr<SliceOp>(std::make_unique<DoneSlice>());
  }

 private:
  const int64_t slices_;
};

// The last of them ends the operation amid its admission.
TEST(EngineCore, SlicesMayBeDoneWhenTheyAreAdmitted) {
  SimJob job({.world_size = kRanks});
  std::vector<std::shared_ptr<Operation>> operations;
  for (int rank = 0; rank < kRanks; ++rank) {
    for (int64_t slices : {1, 3, 1}) {
      operations.push_back(std::make_shared<DoneOperation>(slices));
      job[rank].core().Submit(operations.back());
    }
  }
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_TRUE(job[rank].Poll()) << rank;
  for (const std::shared_ptr<Operation>& operation : operations) {
    EXPECT_TRUE(operation->done.load());
    EXPECT_TRUE(operation->status.ok()) << operation->status.ToString();
  }
  for (int rank = 0; rank < kRanks; ++rank) job[rank].EndStep({.number = 1});
  ASSERT_TRUE(job.RunUntil([&] { return job[0].turn() == 1 && job[1].turn() == 1; }, kNsPerSecond));
  EXPECT_EQ(job[1].results()[0].outcome, StepOutcome::kCommit);
}

// A sum of all ranks whose signature is another once it begins.
class ChangingOperation final : public Operation {
 public:
  ChangingOperation(int rank, ScheduleCache* schedules, float* value)
      : sum_({.collective = Collective::kAllReduce,
              .send = reinterpret_cast<const std::byte*>(value),
              .recv = reinterpret_cast<std::byte*>(value),
              .count = 1,
              .rank = rank,
              .world_size = kThreeRanks},
             1, &Row(), schedules->Get(Row(), 0)) {}

  static const AlgorithmRow& Row() { return **FindAlgorithm(Collective::kAllReduce, "direct"); }

  OpText Text() const override { return sum_.Text(); }
  Status Prepare() override {
    signature = ~signature;
    return Status();
  }
  int64_t slices() const override { return sum_.slices(); }
  StatusOr<std::unique_ptr<SliceOp>> MakeSlice(int64_t index) override {
    return sum_.MakeSlice(index);
  }

 private:
  RawOperation sum_;
};

// Rank 1 stands at an operation that rank 0 has not begun, and tells how it is called.
TEST(EngineCore, WhatHasNotBegunIsNotCompared) {
  SimJob job({.world_size = kThreeRanks, .window = 1});
  const AlgorithmRow& reduce = **FindAlgorithm(Collective::kReduce, "tree");
  std::deque<ScheduleCache> schedules;
  for (int rank = 0; rank < kThreeRanks; ++rank) schedules.emplace_back(rank, kThreeRanks);
  std::array<float, 2 * kThreeRanks> values = {};
  const auto submit = [&](int rank) {
    auto* const value = reinterpret_cast<std::byte*>(&values[rank]);
    job[rank].SubmitRaw(
        {.collective = Collective::kReduce, .send = value, .recv = value, .count = 1}, reduce, 0);
    job[rank].core().Submit(
        std::make_shared<ChangingOperation>(rank, &schedules[rank], &values[kThreeRanks + rank]));
    job[rank].EndStep({.number = 1});
  };
  submit(0), submit(1);
  const auto ended = [&] { return job[0].turn() + job[1].turn() + job[2].turn() > 0; };
  EXPECT_FALSE(job.RunUntil(ended, kNsPerSecond)) << "nothing is revoked";
  submit(2);
  ASSERT_TRUE(job.RunUntil([&] { return job[0].turn() == 1; }, 2 * kNsPerSecond));
  EXPECT_EQ(job[0].results()[0].outcome, StepOutcome::kCommit);
}

// The parameter: which rank.
class RankWithoutMemory : public testing::TestWithParam<int> {};

TEST_P(RankWithoutMemory, TellsTheOthersWhy) {
  const int hungry = GetParam();
  SimJob job({.world_size = kThreeRanks});
  job[hungry].core().Submit(std::make_shared<HungryOperation>());
  EXPECT_THROW(job[hungry].Poll(), std::bad_alloc);
  job[hungry].core().EndBroken(std::bad_alloc());
  const auto is_over = [&](int rank) { return !job[rank].fatal().ok(); };
  ASSERT_TRUE(job.RunUntil([&] { return is_over(0) && is_over(1) && is_over(2); }, kNsPerSecond));
  EXPECT_LT(job.now_ns(), 5 * kNsPerMs) << "not by a heartbeat";
  const std::string told = "the engine of rank " + std::to_string(hungry) + " cannot go on";
  for (int rank = 0; rank < kThreeRanks; ++rank) {
    const Status& fatal = job[rank].fatal();
    EXPECT_EQ(fatal.code(), gwSystemError) << rank;
    EXPECT_EQ(fatal.detail().rank, rank);
    EXPECT_EQ(fatal.detail().peer, hungry) << rank;
    EXPECT_NE(fatal.ToString().find(told), std::string::npos) << fatal.ToString();
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, RankWithoutMemory, testing::Range(0, kThreeRanks));

// Each waits for the last of the others, who may also have left without a word.
TEST(EngineCore, WhatAllAreThroughWithIsSettled) {
  SimJob job({.world_size = kThreeRanks});
  const AlgorithmRow& broadcast = **FindAlgorithm(Collective::kBroadcast, "tree");
  std::array<float, kThreeRanks> values = {};
  std::vector<std::shared_ptr<Operation>> operations;
  for (int rank = 0; rank < kThreeRanks; ++rank) {
    EXPECT_TRUE(job[rank].core().settled()) << "nothing was submitted";
    auto* const value = reinterpret_cast<std::byte*>(&values[rank]);
    operations.push_back(job[rank].SubmitRaw(
        {.collective = Collective::kBroadcast, .send = value, .recv = value, .count = 1}, broadcast,
        0));
  }
  const auto all_done = [&] {
    return std::ranges::all_of(operations, [](const auto& op) { return op->done.load(); });
  };
  ASSERT_TRUE(job.RunUntil(all_done, kNsPerSecond));
  const auto settled = [&](int rank) { return job[rank].core().settled(); };
  job[0].core().TellThrough();
  job[1].core().TellThrough();
  EXPECT_FALSE(job.RunUntil([&] { return settled(0) || settled(1); }, 2 * kNsPerSecond));
  job.SayBye(2);
  const int64_t begin_ns = job.now_ns();
  ASSERT_TRUE(job.RunUntil([&] { return settled(0) && settled(1); }, 3 * kNsPerSecond));
  EXPECT_FALSE(settled(2)) << "it has not said that it is through";
  job[2].core().TellThrough();
  EXPECT_TRUE(settled(2));
  EXPECT_LT(job.now_ns() - begin_ns, 5 * kNsPerMs) << "not by a heartbeat";
}

// Each loses whom it first sends to, and rank 0 judges.
TEST(EngineCore, AllRanksAreToldWhatTheTransportAdvisesAgainstALoss) {
  SimJob job({.world_size = kThreeRanks, .loopback = true, .faults = FaultPlan{.lose_at = 0}});
  const AlgorithmRow& direct = **FindAlgorithm(Collective::kAllReduce, "direct");
  std::array<float, kThreeRanks> values = {};
  for (int rank = 0; rank < kThreeRanks; ++rank) {
    auto* const value = reinterpret_cast<std::byte*>(&values[rank]);
    job[rank].SubmitRaw({.send = value, .recv = value, .count = 1}, direct, 0);
  }
  const auto is_over = [&](int rank) { return !job[rank].fatal().ok(); };
  ASSERT_TRUE(job.RunUntil([&] { return is_over(0) && is_over(1) && is_over(2); }, kNsPerSecond));
  for (int rank = 0; rank < kThreeRanks; ++rank) {
    EXPECT_EQ(job[rank].fatal().code(), gwPeerLost);
    EXPECT_EQ(job[rank].fatal().detail().hint, "Take lose and lose_at out of the plan") << rank;
  }
}

}  // namespace
}  // namespace gradwire
