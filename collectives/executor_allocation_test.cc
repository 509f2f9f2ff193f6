#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "collectives/executor.h"

namespace {
std::atomic<int64_t> allocations{0};
}  // namespace

// Counts, so that "no allocation" can be tested.
void* operator new(size_t size) {
  ++allocations;
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace gradwire {
namespace {

TEST(ExecutorTest, AllocatesNothingAfterConstruction) {
  const PreparedSchedule prepared(
      (*FindAlgorithm(Collective::kAllReduce, "direct"))->make(3, 16, 0));
  Executor executor(&prepared);
  std::vector<Command> commands;
  commands.reserve(prepared.schedule.steps.size());
  const int64_t before = allocations;
  for (int run = 0; run < 3; ++run) {
    executor.Reset();
    while (!executor.done()) {
      commands.clear();
      executor.TakeReady(&commands);
      for (const Command& command : commands) executor.Complete(command.step, Status::Ok());
    }
  }
  EXPECT_EQ(allocations - before, 0);
}

}  // namespace
}  // namespace gradwire
