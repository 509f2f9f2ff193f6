#include <gtest/gtest.h>

#include <vector>

#include "collectives/executor.h"
#include "tests/lib/allocation_count.h"

namespace gradwire {
namespace {

TEST(ExecutorTest, AllocatesNothingAfterConstruction) {
  const PreparedSchedule prepared(
      (*FindAlgorithm(Collective::kAllReduce, "direct"))->make(3, 16, 0));
  Executor executor(&prepared);
  std::vector<Command> commands;
  commands.reserve(prepared.schedule.steps.size());
  const int64_t before = AllocationCount();
  for (int run = 0; run < 3; ++run) {
    executor.Reset();
    while (!executor.done()) {
      commands.clear();
      executor.TakeReady(&commands);
      for (const Command& command : commands) executor.Complete(command.step, Status::Ok());
    }
  }
  EXPECT_EQ(AllocationCount() - before, 0);
}

}  // namespace
}  // namespace gradwire
