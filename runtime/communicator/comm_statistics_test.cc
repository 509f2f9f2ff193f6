#include "runtime/communicator/comm_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "collectives/schedule.h"

namespace gradwire {
namespace {

using testing::HasSubstr;

class FakeOperation final : public Operation {
 public:
  FakeOperation(const char* algorithm, int64_t submitted_ns) {
    course.algorithm = *FindAlgorithm(Collective::kAllReduce, algorithm);
    submit_ns = submitted_ns;
  }
  OpText Text() const override { return {}; }
  int64_t slices() const override { return 1; }
  StatusOr<std::unique_ptr<SliceOp>> MakeSlice(int64_t) override {
    return Status(gwInternalError, "it has none");
  }
};

// Slices of several operations are in flight, and a small one overtakes a large one.
TEST(CommStatistics, NamesTheOperationSubmittedLastInWhateverOrderTheyEnd) {
  CommStatistics statistics(Hosts::kOne);
  ScheduleCache schedules(0, 2);
  statistics.NoteDone(FakeOperation("ring", 100));
  statistics.NoteDone(FakeOperation("direct", 300));
  statistics.NoteDone(FakeOperation("ring", 200));
  const std::string json = statistics.Json({.world_size = 2}, &schedules);
  EXPECT_THAT(json, HasSubstr("\"algorithm\": \"direct\""));
  EXPECT_THAT(json, HasSubstr("\"operations\": 3"));
}

TEST(CommStatistics, TellWhetherAllRanksShareAHost) {
  ScheduleCache schedules(0, 2);
  const auto json = [&](Hosts hosts) {
    return CommStatistics(hosts).Json({.world_size = 2}, &schedules);
  };
  EXPECT_THAT(json(Hosts::kOne), HasSubstr("\"one_host\": true"));
  EXPECT_THAT(json(Hosts::kSeveral), HasSubstr("\"one_host\": false"));
}

}  // namespace
}  // namespace gradwire
