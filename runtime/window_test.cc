// The window of slices in flight: who waits behind it, and for how long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "collectives/schedule.h"
#include "runtime/sim_job.h"

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
        ChooseAlgorithm(
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

}  // namespace
}  // namespace gradwire
