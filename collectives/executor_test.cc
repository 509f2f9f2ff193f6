#include "collectives/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"

namespace gradwire {
namespace {

// A schedule whose steps are receives of bare headers, copies and sends, with random deps.
Schedule RandomDag(uint64_t seed, int steps) {
  RandomStream random(seed);
  ScheduleBuilder builder(Collective::kBarrier, 0, 3, 0, 1);
  for (int i = 0; i < steps; ++i) {
    switch (random.Below(3)) {
      case 0: builder.Send(1, i, 0, {}); break;
      case 1: builder.Recv(2, i, 0, {}); break;
      default: builder.Local(StepKind::kCopy, 0, {}, {}); break;
    }
    for (uint64_t d = random.Below(4); i > 0 && d > 0; --d) {
      builder.Order(static_cast<int32_t>(random.Below(i)), i);
    }
  }
  return std::move(builder).Build("random");
}

// Runs to the end, completing taken steps in random order. Checks every promise of TakeReady.
void RunRandomly(const PreparedSchedule& prepared, RandomStream* random, Executor* executor) {
  std::vector<Command> taken, fresh;
  std::vector<bool> completed(prepared.schedule.steps.size());
  while (!executor->done()) {
    fresh.clear();
    executor->TakeReady(&fresh);
    for (size_t i = 0; i < fresh.size(); ++i) {
      if (i > 0) {
        ASSERT_LT(fresh[i - 1].step, fresh[i].step);
      }
      const Step& step = prepared.schedule.steps[fresh[i].step];
      for (int32_t dep : prepared.schedule.DepsOf(step)) ASSERT_TRUE(completed[dep]);
    }
    taken.insert(taken.end(), fresh.begin(), fresh.end());
    ASSERT_FALSE(taken.empty()) << "nothing to do and not done";
    const size_t pick = random->Below(taken.size());
    executor->Complete(taken[pick].step, Status::Ok());
    completed[taken[pick].step] = true;
    taken.erase(taken.begin() + static_cast<int64_t>(pick));
  }
  EXPECT_TRUE(taken.empty());
  for (size_t i = 0; i < completed.size(); ++i) ASSERT_TRUE(completed[i]) << "step " << i;
}

TEST(ExecutorTest, RandomGraphsCompleteInRandomOrders) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PreparedSchedule prepared(RandomDag(seed, 1 + static_cast<int>(seed % 50)));
    RandomStream random(seed, /*stream=*/1);
    Executor executor(&prepared);
    for (int run = 0; run < 3; ++run) {
      RunRandomly(prepared, &random, &executor);
      if (HasFatalFailure()) return;
      executor.Reset();
      EXPECT_FALSE(executor.done());
    }
  }
}

TEST(ExecutorTest, NoStepsIsDone) {
  const PreparedSchedule prepared(ScheduleBuilder(Collective::kBarrier, 0, 1, 0, 1).Build("none"));
  const Executor executor(&prepared);
  EXPECT_TRUE(executor.done());
  EXPECT_EQ(executor.AwaitedPeer(), -1);
}

TEST(ExecutorTest, AfterAnErrorNothingBecomesReady) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PreparedSchedule prepared(RandomDag(seed, 40));
    Executor executor(&prepared);
    std::vector<Command> taken;
    executor.TakeReady(&taken);
    ASSERT_FALSE(taken.empty());
    executor.Complete(taken[0].step, Status(gwPeerLost, "first"));
    EXPECT_TRUE(executor.failed());
    EXPECT_EQ(executor.done(), taken.size() == 1);
    std::vector<Command> more;
    for (size_t i = 1; i < taken.size(); ++i) {
      const bool fails = i % 2 == 0;
      executor.Complete(taken[i].step, fails ? Status(gwAborted, "later") : Status::Ok());
      executor.TakeReady(&more);
    }
    EXPECT_TRUE(more.empty());
    EXPECT_TRUE(executor.done());
    EXPECT_EQ(executor.status().code(), gwPeerLost);
    executor.Reset();
    EXPECT_TRUE(executor.status().ok());
    EXPECT_FALSE(executor.done());
  }
}

class ProgressTest : public testing::Test {
 protected:
  static Schedule Make() {
    ScheduleBuilder builder(Collective::kAllReduce, 0, 4, 0, 1);
    const uint8_t scratch = builder.AddBuffer(BufferRole::kScratch, {0, 0});
    builder.Send(3, 0, 0, {});
    builder.Send(3, 1, 0, {});
    builder.Recv(3, 5, 0, {scratch, 0, 1});
    builder.RecvReduce(1, 2, 0, {scratch, 0, 1}, {scratch, 0, 1});
    return std::move(builder).Build("test");
  }
  const PreparedSchedule prepared_{Make()};
  Executor executor_{&prepared_};
};

TEST_F(ProgressTest, NamesWhatIsMissing) {
  std::vector<Command> commands;
  executor_.TakeReady(&commands);
  ASSERT_EQ(commands.size(), 3u);
  EXPECT_EQ(commands[0].kind, Command::Kind::kSend);
  EXPECT_EQ(commands[2].kind, Command::Kind::kExpect);
  executor_.Complete(0, Status::Ok());
  EXPECT_EQ(executor_.progress(3).ToString(),
            "sent 1 of 2, received 0 of 1, waits for peer 3 message 5");
  EXPECT_EQ(executor_.AwaitedPeer(), 3);
  executor_.Complete(2, Status::Ok());
  EXPECT_EQ(executor_.progress(3).ToString(), "sent 1 of 2, received 1 of 1");
  EXPECT_EQ(executor_.AwaitedPeer(), 1);
}

TEST_F(ProgressTest, SendsAreAwaitedWhenNothingElseIs) {
  std::vector<Command> commands;
  executor_.TakeReady(&commands);
  executor_.Complete(2, Status::Ok());
  commands.clear();
  executor_.TakeReady(&commands);
  executor_.Complete(3, Status::Ok());
  EXPECT_EQ(executor_.AwaitedPeer(), 3);
  EXPECT_FALSE(executor_.done());
}

TEST_F(ProgressTest, FindRecv) {
  EXPECT_EQ(prepared_.FindRecv(3, 5), 2);
  EXPECT_EQ(prepared_.FindRecv(1, 2), 3);
  EXPECT_EQ(prepared_.FindRecv(3, 4), -1);
  EXPECT_EQ(prepared_.FindRecv(2, 5), -1);
  EXPECT_EQ(prepared_.FindRecv(-1, 5), -1);
  EXPECT_EQ(prepared_.FindRecv(3, -5), -1);
}

}  // namespace
}  // namespace gradwire
