// Operations whose slices compute, or run a schedule of one step: in what order they are admitted,
// how many at a time, and what is left when one fails or the turn ends.
#include "runtime/engine/slice_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "collectives/drivers/event_driver.h"
#include "collectives/executor.h"
#include "runtime/engine/engine_notes.h"
#include "tests/lib/log_lines.h"
#include "transports/control/message.h"
#include "transports/loopback/loopback_ends.h"

namespace gradwire {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// What the slices of an operation do: how often each computes, what it runs then, and what fails.
struct Behaviour {
  int64_t slices = 1;
  int computes = 1;
  const PreparedSchedule* schedule = nullptr;
  Status prepare, make, compute, run;
};

// Of rank 0 of two.
const PreparedSchedule& OneStep(StepKind kind) {
  const auto made = [](StepKind kind) {
    ScheduleBuilder builder(Collective::kBarrier, 0, 2, 0, 1);
    if (kind == StepKind::kSend) {
      builder.Send(1, 0, 0, {});
    } else {
      builder.Local(kind, 0, {}, {});
    }
    return PreparedSchedule(std::move(builder).Build("one step"));
  };
  static const PreparedSchedule copy = made(StepKind::kCopy), send = made(StepKind::kSend);
  return kind == StepKind::kSend ? send : copy;
}

class BehavingSlice final : public SliceOp {
 public:
  explicit BehavingSlice(const Behaviour& behaviour) : behaviour_(behaviour) {}
  StatusOr<SliceAction> Next() override {
    if (computed_ < behaviour_.computes) return SliceAction{SliceAction::Kind::kCompute};
    if (has_run_ || behaviour_.schedule == nullptr) return SliceAction{SliceAction::Kind::kDone};
    has_run_ = true;
    return SliceAction{SliceAction::Kind::kRun, behaviour_.schedule};
  }
  StatusOr<bool> ComputeLocal() override {
    if (!behaviour_.compute.ok()) return behaviour_.compute;
    return ++computed_ == behaviour_.computes;
  }
  StatusOr<bool> Compute(const Step& /*step*/, int64_t* /*cursor*/) override {
    if (!behaviour_.run.ok()) return behaviour_.run;
    return true;
  }
  Bytes Memory(const Region& /*region*/) override { return {}; }
  int64_t MessageBytes(const Region& /*region*/) const override { return 0; }
  void Combine(const Step& /*step*/, int64_t /*offset*/, ConstBytes /*fragment*/) override {}

 private:
  const Behaviour behaviour_;
  int computed_ = 0;
  bool has_run_ = false;
};

class BehavingOperation final : public Operation {
 public:
  BehavingOperation(std::string called, uint16_t of_turn, Behaviour behaviour)
      : behaviour_(std::move(behaviour)) {
    name = std::move(called);
    turn = of_turn;
  }
  OpText Text() const override { return {{"operation", name}}; }
  Status Prepare() override { return behaviour_.prepare; }
  int64_t slices() const override { return behaviour_.slices; }
  StatusOr<std::unique_ptr<SliceOp>> MakeSlice(int64_t /*index*/) override {
    if (!behaviour_.make.ok()) return behaviour_.make;
    ++made;
    return std::unique_ptr<SliceOp>(std::make_unique<BehavingSlice>(behaviour_));
  }
  int made = 0;

 private:
  const Behaviour behaviour_;
};

class SlicePipelineTest : public testing::Test, private PipelineListener {
 protected:
  static constexpr int kWindow = 2;

  SlicePipelineTest() { Make(0); }

  // Anew: transport, driver and pipeline of rank 0.
  void Make(uint32_t first_op_seq) {
    begun.clear(), done.clear(), failed.clear();
    pipeline_.reset();
    driver_.reset();
    ends_ = std::move(*MakeLoopbackEnds(2));
    EXPECT_TRUE(ConnectEnds(ends_).ok());
    driver_ = std::make_unique<EventDriver>(ends_[0].get(), EventDriver::Options{.world_size = 2});
    pipeline_ = std::make_unique<SlicePipeline>(
        SlicePipeline::Options{.window = kWindow, .first_op_seq = first_op_seq}, driver_.get(),
        &clock_, &notes_, static_cast<PipelineListener*>(this));
  }
  EventDriver& driver() { return *driver_; }
  SlicePipeline& pipeline() { return *pipeline_; }

  std::shared_ptr<BehavingOperation> Submit(std::string name, Behaviour behaviour = {},
                                            uint16_t turn = 0) {
    auto operation = std::make_shared<BehavingOperation>(std::move(name), turn, behaviour);
    pipeline_->Submit(operation);
    return operation;
  }
  // Until nothing moves.
  void Run() {
    while (pipeline_->Admit() || driver_->Poll() || pipeline_->AdvanceFinishedRuns() ||
           pipeline_->Compute()) {
    }
  }

  std::vector<std::string> begun, done, failed;

 private:
  void OnBegin(const Operation& operation) override { begun.push_back(operation.name); }
  void OnSlicesDone(Operation& operation) override { done.push_back(operation.name); }
  void OnFailed(uint32_t op_seq, Status why) override {
    failed.push_back(std::to_string(op_seq) + ": " + why.detail().message);
    pipeline_->Stop(why);
  }

  std::vector<std::unique_ptr<Transport>> ends_;
  ManualClock clock_;
  const EngineNotes notes_{nullptr, &clock_};
  std::unique_ptr<EventDriver> driver_;
  std::unique_ptr<SlicePipeline> pipeline_;
};

TEST_F(SlicePipelineTest, TakesOperationsThroughAllTheirSlicesInOrder) {
  Submit("a", {.slices = 3});
  Submit("b");
  Run();
  EXPECT_THAT(begun, ElementsAre("a", "b"));
  EXPECT_THAT(done, ElementsAre("a", "b"));
  EXPECT_EQ(pipeline().slices_done(), 4u);
  EXPECT_TRUE(pipeline().empty());
}

TEST_F(SlicePipelineTest, AdmitsAsManySlicesAsTheWindowHasRoomFor) {
  const auto a = Submit("a", {.slices = 3}), b = Submit("b");
  EXPECT_TRUE(pipeline().Admit());
  EXPECT_EQ(a->made, kWindow);
  EXPECT_THAT(begun, ElementsAre("a")) << "b waits for room, unprepared";
  EXPECT_TRUE(pipeline().HasBegun(*a));
  EXPECT_FALSE(pipeline().HasBegun(*b));
  EXPECT_FALSE(pipeline().Admit());
  EXPECT_TRUE(pipeline().Compute());
  EXPECT_TRUE(pipeline().Admit());
  EXPECT_EQ(a->made, 3);
}

TEST_F(SlicePipelineTest, FindsWhatWasCompleteBeforeItsPredecessor) {
  const auto slow = Submit("slow", {.computes = 3}), quick = Submit("quick", {.computes = 0});
  EXPECT_TRUE(pipeline().Admit());
  EXPECT_THAT(done, ElementsAre("quick"));
  EXPECT_EQ(pipeline().oldest(), slow.get());
  EXPECT_EQ(pipeline().Find(1), quick.get());
  Run();
  EXPECT_THAT(done, ElementsAre("quick", "slow"));
  EXPECT_EQ(pipeline().oldest(), nullptr);
  EXPECT_EQ(pipeline().Find(0), slow.get()) << "kept for a peer that disagrees later";
  EXPECT_EQ(pipeline().Find(2), nullptr);
}

TEST_F(SlicePipelineTest, LetsTheNextTurnsOperationsWait) {
  Submit("now");
  const auto later = Submit("later", {}, 1);
  EXPECT_EQ(later->op_seq, 0u) << "each turn counts from 0";
  EXPECT_EQ(pipeline().submitted(), 1u);
  EXPECT_EQ(pipeline().submitted_later(), 1u);
  Run();
  EXPECT_THAT(done, ElementsAre("now"));
  EXPECT_EQ(pipeline().oldest(), nullptr);
  EXPECT_FALSE(pipeline().empty());
  pipeline().BeginTurn(1);
  EXPECT_EQ(pipeline().submitted(), 1u);
  EXPECT_EQ(pipeline().submitted_later(), 0u);
  Run();
  EXPECT_THAT(done, ElementsAre("now", "later"));
}

TEST_F(SlicePipelineTest, GivesNoOperationTheNumberOfNone) {
  Make(kNoOpSeq - 1);
  EXPECT_EQ(Submit("last")->op_seq, kNoOpSeq - 1);
  EXPECT_EQ(Submit("first")->op_seq, 0u);
  Run();
  EXPECT_THAT(done, ElementsAre("last", "first"));
}

TEST_F(SlicePipelineTest, StopsWhereAnOperationFailsAndGoesOnInTheNextTurn) {
  const Status why(gwDataCorrupt, "broken");
  const Behaviour fails_in_its_run = {.schedule = &OneStep(StepKind::kCopy), .run = why};
  for (const Behaviour& behaviour :
       {Behaviour{.prepare = why}, Behaviour{.make = why}, Behaviour{.compute = why},
        Behaviour{.slices = 3, .compute = why}, fails_in_its_run}) {
    Make(0);
    Submit("good", {.computes = 0});
    Submit("bad", behaviour);
    const auto after = Submit("after", {.computes = 9});
    Submit("later", {}, 1);
    Run();
    EXPECT_THAT(done, ElementsAre("good"));
    EXPECT_THAT(failed, ElementsAre("1: broken"));
    EXPECT_FALSE(pipeline().Admit()) << "in this turn";
    EXPECT_TRUE(pipeline().LetGo()) << "nothing was sent";
    EXPECT_EQ(pipeline().front()->name, "bad");
    pipeline().PopFront();
    EXPECT_EQ(pipeline().front(), after);
    pipeline().PopFront();
    EXPECT_EQ(pipeline().oldest(), nullptr) << "the next is a later turn's";
    pipeline().BeginTurn(1);
    EXPECT_EQ(pipeline().Find(1), nullptr);
    Run();
    EXPECT_THAT(done, ElementsAre("good", "later"));
    EXPECT_EQ(pipeline().front(), nullptr);
  }
}

TEST_F(SlicePipelineTest, StoppedByOthersItAdmitsNothing) {
  const auto a = Submit("a", {.slices = 5});
  EXPECT_TRUE(pipeline().Admit());
  pipeline().Stop(Status(gwAborted, "another rank has failed"));
  EXPECT_FALSE(pipeline().Admit());
  EXPECT_FALSE(pipeline().Compute());
  EXPECT_EQ(a->made, kWindow);
  EXPECT_THAT(done, IsEmpty());
  EXPECT_THAT(failed, IsEmpty());
}

TEST_F(SlicePipelineTest, GoesOnWithWhatHasRun) {
  Submit("copies", {.slices = 3, .schedule = &OneStep(StepKind::kCopy)});
  Run();
  EXPECT_THAT(done, ElementsAre("copies"));
}

// Two runs are over when it hears of the first, which ends the turn of both.
TEST_F(SlicePipelineTest, ForgetsRunsThatWereOverWhenItStopped) {
  const PreparedSchedule* copy = &OneStep(StepKind::kCopy);
  Submit("bad", {.computes = 0, .schedule = copy, .run = Status(gwDataCorrupt, "broken")});
  Submit("good", {.computes = 0, .schedule = copy});
  EXPECT_TRUE(pipeline().Admit());
  while (driver().Poll()) continue;
  EXPECT_TRUE(pipeline().AdvanceFinishedRuns());
  EXPECT_THAT(failed, ElementsAre("0: broken"));
  EXPECT_THAT(done, IsEmpty());
}

TEST_F(SlicePipelineTest, KeepsWhatTheTransportMayStillRead) {
  Submit("sends", {.computes = 0, .schedule = &OneStep(StepKind::kSend)});
  EXPECT_TRUE(pipeline().Admit());
  pipeline().Stop(Status(gwAborted, "another rank has failed"));
  EXPECT_FALSE(pipeline().LetGo());
  while (driver().Poll()) continue;
  EXPECT_TRUE(pipeline().LetGo());
}

TEST_F(SlicePipelineTest, LeaksWhatTheTransportNeverLetsGo) {
  const LogLines lines;
  Submit("sends", {.computes = 0, .schedule = &OneStep(StepKind::kSend)});
  EXPECT_TRUE(pipeline().Admit());
  pipeline().Stop(Status(gwAborted, "another rank has failed"));
  pipeline().Leak();
  EXPECT_THAT(lines.With("1 slices are never freed"), SizeIs(1));
}

TEST_F(SlicePipelineTest, ForgetsWhatWasDoneLongAgo) {
  constexpr uint32_t kMany = 100;
  for (uint32_t i = 0; i < kMany; ++i) Submit("a");
  Run();
  EXPECT_THAT(done, SizeIs(kMany));
  EXPECT_EQ(pipeline().Find(0), nullptr);
  EXPECT_NE(pipeline().Find(kMany - 1), nullptr);
}

}  // namespace
}  // namespace gradwire
