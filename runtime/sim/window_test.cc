// The window of slices in flight: who waits behind it, and for how long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "collectives/schedule.h"
#include "runtime/sim/sim_job.h"
#include "transports/frame/frame.h"

namespace gradwire {
namespace {

using testing::HasSubstr;

constexpr int kRanks = 2;

// Two all-reduces of one float by each rank, where one slice may be in flight.
class NarrowWindow : public testing::Test {
 protected:
  std::shared_ptr<Operation> Submit(int rank, size_t at) {
    const RawOp op = {.collective = Collective::kAllReduce,
                      .send = reinterpret_cast<const std::byte*>(&values_[rank][at]),
                      .recv = reinterpret_cast<std::byte*>(&values_[rank][at]),
                      .count = 1};
    return job_[rank].SubmitRaw(
        op,
        **ChooseAlgorithm(
            {.collective = Collective::kAllReduce, .world_size = kRanks, .bytes = sizeof(float)}),
        job_[rank].turn());
  }

  SimJob job_ = SimJob({.world_size = kRanks, .window = 1});
  std::array<std::array<float, 2>, kRanks> values_ = {{{1, 2}, {3, 4}}};
};

// The caller that waits for the first one polls no more when it has it.
TEST_F(NarrowWindow, IsFilledInThePollThatMadeRoom) {
  std::vector<std::shared_ptr<Operation>> first, second;
  for (int rank = 0; rank < kRanks; ++rank) {
    first.push_back(Submit(rank, 0));
    second.push_back(Submit(rank, 1));
  }
  ASSERT_TRUE(job_.RunUntil([&] { return first[0]->done.load(); }, kNsPerSecond));
  EXPECT_THAT(job_[0].core().DescribeWaiting(), HasSubstr("of operation #1"));
  EXPECT_TRUE(job_.RunUntil([&] { return second[0]->done.load() && second[1]->done.load(); },
                            kNsPerSecond));
}

// An all-reduce of two slices, where one may be in flight.
class LongOperation : public testing::Test {
 protected:
  static constexpr int64_t kSliceElems = 1024;

  LongOperation() {
    for (int rank = 0; rank < kRanks; ++rank) {
      values_[rank].resize(2 * kSliceElems);
      auto* const data = reinterpret_cast<std::byte*>(values_[rank].data());
      const RawOp op = {.collective = Collective::kAllReduce,
                        .send = data,
                        .recv = data,
                        .count = 2 * kSliceElems};
      const AlgorithmRow& row = **ChooseAlgorithm(
          {.collective = op.collective, .world_size = kRanks, .bytes = 2 * kSliceElems});
      operations_.push_back(job_[rank].SubmitRaw(op, row, 0));
    }
  }
  // A bare header in the name of rank 0.
  void SendToRank1(uint32_t slice) {
    constexpr SendToken kNobodys = ~SendToken{0};
    FrameHeader header = {.src = 0, .job = kSimJobNumber, .slice = slice};
    SealFrame(&header, {});
    ASSERT_EQ(job_[0].transport().TrySend(1, header, {}, kNobodys), SendOutcome::kAccepted);
  }

  SimJob job_ =
      SimJob({.world_size = kRanks, .slice_elems = kSliceElems, .window = 1, .loopback = true});
  std::array<std::vector<float>, kRanks> values_;
  std::vector<std::shared_ptr<Operation>> operations_;
};

TEST_F(LongOperation, IsAMismatchWhereSomebodyStillSendsForASliceThatIsComplete) {
  ASSERT_TRUE(job_.RunUntil(
      [&] { return job_[1].core().DescribeWaiting().starts_with("slice 1 "); }, kNsPerSecond));
  SendToRank1(0);
  ASSERT_TRUE(
      job_.RunUntil([&] { return job_[0].turn() == 1 && job_[1].turn() == 1; }, kNsPerSecond));
  for (int rank = 0; rank < kRanks; ++rank) {
    const Status& reason = job_[rank].results()[0].reason;
    EXPECT_EQ(reason.code(), gwMismatch);
    EXPECT_THAT(reason.ToString(),
                HasSubstr("rank 0 still sends for slice 0 of operation #0, which is complete"));
  }
}

}  // namespace
}  // namespace gradwire
