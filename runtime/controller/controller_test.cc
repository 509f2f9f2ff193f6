// Rank 0's controller, told what two ranks measure.
#include "runtime/controller/controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "runtime/spec/auto_spec.h"
#include "tests/lib/log_lines.h"

namespace gradwire {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// Training with one tensor, whose steps take half as long on any codec as on the plain sum, or as
// is told.
class Job {
 public:
  explicit Job(const char* spec = "auto", std::string log_path = "")
      : log_path_(std::move(log_path)) {
    tensor_.name = "w";
    tensor_.id = 7;
    tensor_.shape = {kElems};
    tensor_.elems = kElems;
    tensor_.TakeLadder(std::make_shared<const AutoSpec>(*MakeAutoSpec(spec)), 2);
    controller.Enable();
  }

  void Steps(int count) {
    for (; count > 0; --count, ++turn_) {
      const bool is_none = controller.RungFor(tensor_, turn_, true) == kNoneRung;
      const float wait_us = is_none ? 900 : codec_wait_us, step_us = wait_us + compute_us;
      // An error of 0.25 % of each rank's part, on any rung but the lowest.
      const float error = is_none ? 0 : 6.25e-6f;
      const std::string observed = EncodeObservation(
          {.step = turn_,
           .turn = turn_,
           .step_us = step_us,
           .blocked_us = wait_us,
           .busy_us = wait_us,
           .tensors = {{.tensor = 7, .ready_us = 50, .energy = 1, .error = error}}});
      // The vote on a step brings what was measured in the one before.
      const auto vote = static_cast<uint16_t>(turn_ + 1);
      const std::vector<std::string> ranks = {observed, observed};
      controller.EndTurn(turn_, true, order_, tensors_);
      order_ = controller.Advise(vote, ranks, tensors_);
    }
  }

  // What is asked for outside of steps.
  void OutsideSteps() { (void)controller.RungFor(tensor_, turn_, false); }

  bool has_decided() const { return !order_.empty(); }

  float compute_us = 100, codec_wait_us = 400;

 private:
  static constexpr int64_t kElems = 4096;
  const std::string log_path_;
  ManualClock clock_;

 public:
  Controller controller{{.slice_elems = 1 << 16,
                         .algorithms = {.world_size = 2},
                         .clock = &clock_,
                         .log_path = log_path_}};

 private:
  TensorState tensor_;
  std::vector<TensorState*> tensors_ = {&tensor_};
  uint16_t turn_ = 0;
  std::string order_;  // that the next result brings
};

constexpr int kWarmUp = 40;
constexpr int kIntoBf16 = 12;  // bf16 is in effect again and has not been measured anew

std::string WarmedUp(float codec_wait_us = 400) {
  Job job;
  job.codec_wait_us = codec_wait_us;
  job.Steps(kWarmUp);
  return job.controller.Save();
}

// An evaluation, say.
TEST(Controller, APauseBetweenStepsIsNoPartOfThem) {
  constexpr uint16_t kSteps = 20, kPausedAfter = 10;
  ManualClock clock;
  Controller controller({.algorithms = {.world_size = 2}, .clock = &clock});
  controller.Enable();
  for (uint16_t turn = 0; turn < kSteps; ++turn) {
    controller.BeginStep(turn, turn);
    clock.Advance(900 * kNsPerUs);
    const std::string told = controller.TakeObservation();
    if (turn > 0) {
      const StatusOr<StepObservation> before = DecodeObservation(told);
      ASSERT_TRUE(before.ok()) << turn;
      EXPECT_EQ(before->step_us, 1000) << turn;
      EXPECT_EQ(before->blocked_us, 50 + (turn - 1 == kPausedAfter ? 0 : 5)) << turn;
    }
    controller.NoteBlocked(50 * kNsPerUs);
    controller.EndTurn(turn, true, "", {});
    controller.EndStep();
    const bool is_pause = turn == kPausedAfter;
    controller.NoteBlocked((is_pause ? 9'000 : 5) * kNsPerUs);
    clock.Advance((is_pause ? 10'000 : 100) * kNsPerUs);
  }
}

// Its disk may be slow, and all ranks wait for the decision.
TEST(Controller, WritesItsLogWhenTheResultIsOut) {
  const std::string path = testing::TempDir() + "/controller_log";
  const auto text = [&] { return (std::stringstream() << std::ifstream(path).rdbuf()).str(); };
  {
    Job job("auto", path);
    for (int steps = 0; steps < kWarmUp && !job.has_decided(); ++steps) job.Steps(1);
    ASSERT_TRUE(job.has_decided());
    EXPECT_THAT(text(), Not(HasSubstr("\"decision\"")));
    job.Steps(1);
    EXPECT_THAT(text(), HasSubstr("\"decision\""));
  }
  std::filesystem::remove(path);
}

TEST(Controller, TellsWhatAResumedPlanChanges) {
  Job job;
  job.controller.Load(WarmedUp(900));
  job.Steps(1);
  EXPECT_THAT(job.controller.Json(),
              HasSubstr("\"change\": \"w bf16 -> none\", \"why\": \"resumed"));
}

TEST(Controller, TellsWhatAPlanResumedAmongStepsChanges) {
  const std::string saved = WarmedUp();
  Job job;
  job.Steps(kWarmUp);
  job.controller.Load(saved);
  job.Steps(1);
  EXPECT_THAT(job.controller.Json(), HasSubstr("\"change\": \"no change\", \"why\": \"resumed"));
}

TEST(Controller, TellsWhatWasPredictedAndMeasured) {
  Job job;
  job.Steps(kIntoBf16);
  EXPECT_THAT(job.controller.Json(), HasSubstr("none is measured\", \"predicted_ms\": 0, "
                                               "\"was_ms\": 0.5, \"measured_ms\": 1"));
  EXPECT_THAT(job.controller.Json(), HasSubstr("faster than none\", \"predicted_ms\": 0.5, "
                                               "\"was_ms\": 1, \"measured_ms\": null"));
  job.Steps(16);
  EXPECT_THAT(job.controller.Json(),
              HasSubstr("\"was_ms\": 1, \"measured_ms\": 0.5, \"error\": 0.00"));
}

TEST(Controller, LogsOneLineForAChangeOnceItIsMeasured) {
  const LogLines lines(LogLevel::kInfo);
  Job job;
  job.Steps(kIntoBf16);
  EXPECT_THAT(lines.With("none -> bf16"), IsEmpty());
  job.Steps(16);
  EXPECT_THAT(lines.With("none -> bf16"),
              ElementsAre(HasSubstr(": w none -> bf16: predicted 0.5 ms, was 1.0 ms, measured 0.5 "
                                    "ms, error .003 <= .100 (warm-up: bf16 is faster than none)")));
}

TEST(Controller, LogsAChangeThatIsNotMeasuredAtTheEnd) {
  const LogLines lines(LogLevel::kInfo);
  {
    Job job;
    job.Steps(kIntoBf16);
  }
  EXPECT_THAT(lines.With("none -> bf16"),
              ElementsAre(HasSubstr("was 1.0 ms (warm-up: bf16 is faster than none)")));
}

TEST(Controller, TellsOnceThatItsModelIsOff) {
  const LogLines lines(LogLevel::kInfo);
  Job job;
  job.Steps(kWarmUp);
  EXPECT_THAT(job.controller.Json(), HasSubstr("\"model_off\": false"));
  EXPECT_THAT(lines.With("model off"), IsEmpty());
  job.compute_us = 2000;  // which it learns in some windows
  job.Steps(10);
  EXPECT_THAT(job.controller.Json(), HasSubstr("\"model_off\": true"));
  job.Steps(100);
  EXPECT_THAT(job.controller.Json(), HasSubstr("\"model_off\": false"));
  EXPECT_THAT(lines.With("model off: steps take"), SizeIs(1));
  EXPECT_THAT(lines.With("model right again: steps take"), SizeIs(1));
}

TEST(Controller, TellsOnceThatThereAreNoSteps) {
  const LogLines lines(LogLevel::kInfo);
  Job job;
  for (int i = 0; i < 3; ++i) job.OutsideSteps();
  EXPECT_THAT(lines.With("compute cannot be measured"), SizeIs(1));
  EXPECT_THAT(job.controller.Json(), HasSubstr("compute cannot be measured"));
}

TEST(Controller, OfATrainingThatSumsOutsideStepsTooItTellsNothing) {
  const LogLines lines(LogLevel::kInfo);
  Job job;
  job.Steps(1);
  job.OutsideSteps();
  EXPECT_THAT(lines.With("compute cannot be measured"), IsEmpty());
}

TEST(Controller, SaysSoWhereItControlsNothing) {
  const LogLines lines(LogLevel::kInfo);
  Job job("auto(min_numel=1000000)");
  job.Steps(kWarmUp);
  EXPECT_THAT(job.controller.Json(), HasSubstr("\"note\": \"nothing is controlled: of 1 "));
  EXPECT_THAT(job.controller.Json(), HasSubstr("\"decisions\": []"));
  EXPECT_THAT(lines.With("nothing is controlled"), SizeIs(1));
}

int64_t ProbesOf(const Controller& controller) {
  const std::string json = controller.Json(), name = "\"probes\": ";
  return std::stoll(json.substr(json.find(name) + name.size()));
}

// In which steps rank 0 tries a codec on a gradient, of as many from its first.
std::vector<int> StepsWithAProbe(int steps, const PlanOrder& order) {
  const ManualClock clock;
  Controller controller({.slice_elems = 1 << 16, .algorithms = {.world_size = 2}, .clock = &clock});
  controller.Enable();
  const std::vector<float> grad(4096, 1.0f);
  TensorState tensor;
  tensor.id = 7;
  tensor.shape = {std::ssize(grad)};
  tensor.elems = std::ssize(grad);
  tensor.TakeLadder(std::make_shared<const AutoSpec>(*MakeAutoSpec("auto")), 2);
  const std::vector<TensorState*> tensors = {&tensor};
  std::vector<int> with_a_probe;
  int64_t before = 0;
  for (int step = 0; step < steps; ++step) {
    const auto turn = static_cast<uint16_t>(step);
    controller.BeginStep(turn, turn);
    controller.NoteSubmit(&tensor, reinterpret_cast<const std::byte*>(grad.data()));
    controller.EndTurn(turn, true, step == 0 ? EncodeOrder(order) : std::string(), tensors);
    if (ProbesOf(controller) != std::exchange(before, ProbesOf(controller)))
      with_a_probe.push_back(step);
  }
  return with_a_probe;
}

TEST(Controller, TriesNoCodecWhilePlansAreCompared) {
  EXPECT_THAT(StepsWithAProbe(5, {.from_turn = 3, .entries = {{.tensor = 7, .a = 1, .b = 1}}}),
              ElementsAre(1, 2, 3, 4))
      << "in the first step nobody knows yet which tensor is the largest";
  EXPECT_THAT(StepsWithAProbe(5, {.from_turn = 3, .entries = {{.tensor = 7, .a = 0, .b = 1}}}),
              ElementsAre(1, 2));
}

// While each rung is tried for the first time: a small one tells what calls take.
TEST(Controller, TriesCodecsOnTheLargestTensorFirst) {
  const ManualClock clock;
  Controller controller({.slice_elems = 1 << 16, .algorithms = {.world_size = 2}, .clock = &clock});
  controller.Enable();
  const std::vector<float> grad(1 << 20, 1.0f);
  TensorState small, large;
  small.shape = {1024}, large.shape = {1, std::ssize(grad)};  // a row too long for a piece
  for (TensorState* tensor : {&small, &large}) {
    tensor->elems = std::accumulate(tensor->shape.begin(), tensor->shape.end(), int64_t{1},
                                    std::multiplies<>());
    tensor->TakeLadder(std::make_shared<const AutoSpec>(*MakeAutoSpec("auto")), 2);
  }
  const auto submit = [&](TensorState* tensor) {
    controller.NoteSubmit(tensor, reinterpret_cast<const std::byte*>(grad.data()));
    return ProbesOf(controller);
  };
  for (uint16_t turn = 0; turn < 5; ++turn) {
    SCOPED_TRACE(turn);
    controller.BeginStep(turn, turn);
    EXPECT_EQ(submit(&small), std::max(turn - 1, 0));
    EXPECT_EQ(submit(&large), turn);
    controller.EndTurn(turn, true, "", {});
  }
}

// Tensors by turns as the rungs are would always meet the same ones.
TEST(Controller, TriesAllCodecsOnOneTensorBeforeTheNext) {
  const ManualClock clock;
  Controller controller({.slice_elems = 1 << 16, .algorithms = {.world_size = 2}, .clock = &clock});
  controller.Enable();
  const std::vector<float> grad(4096, 1.0f);
  TensorState small, large;
  small.elems = 1024, large.elems = 4096;
  for (TensorState* tensor : {&small, &large}) {
    tensor->shape = {tensor->elems};
    tensor->TakeLadder(std::make_shared<const AutoSpec>(*MakeAutoSpec("auto")), 2);
  }
  const int64_t rungs = std::ssize(small.automatic->ladder) - 1;
  std::vector<int64_t> on;  // elements of the tensor in each probe
  for (uint16_t turn = 0; std::ssize(on) < 4 * rungs; ++turn) {
    ASSERT_LT(turn, 100);
    controller.BeginStep(turn, turn);
    for (TensorState* tensor : {&small, &large}) {
      const int64_t before = ProbesOf(controller);
      controller.NoteSubmit(tensor, reinterpret_cast<const std::byte*>(grad.data()));
      if (ProbesOf(controller) > before) on.push_back(tensor->elems);
    }
    controller.EndTurn(turn, true, "", {});
  }
  std::vector<int64_t> expected;
  for (const int64_t elems : {large.elems, large.elems, small.elems, large.elems})
    expected.insert(expected.end(), static_cast<size_t>(rungs), elems);
  EXPECT_EQ(on, expected);
}

TEST(Controller, ItsNoteGoesWithTheNextStateThatIsLoaded) {
  const std::string saved = WarmedUp();
  Job job;
  job.controller.Load("nonsense");
  job.Steps(2);
  EXPECT_THAT(job.controller.Json(), HasSubstr("cannot be read: it warms up again"));
  job.controller.Load(saved);
  job.Steps(1);
  EXPECT_THAT(job.controller.Json(), HasSubstr("resumed from a saved state"));
  EXPECT_THAT(job.controller.Json(), Not(HasSubstr("cannot be read")));
}

}  // namespace
}  // namespace gradwire
