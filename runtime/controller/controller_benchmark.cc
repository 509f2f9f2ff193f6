// What the controller costs one rank in one training step of 200 tensors: all calls of a step, at
// rank 0, where it decides, and at another rank. Probes of codecs are left out: they have a budget
// of time. "step_share" is the part of a step of 50 ms, "vote_bytes" what votes carry in the mean.
// And what a search for the best plan takes.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "runtime/controller/controller.h"
#include "runtime/controller/model.h"
#include "runtime/spec/auto_spec.h"

namespace gradwire {
namespace {

constexpr int kTensors = 200;
constexpr int64_t kElems = 1 << 20;
constexpr int kRanks = 4;
constexpr double kStepNs = 50e6;
// The first ones have no plan yet.
constexpr int kWarmUp = 100;

class Training {
 public:
  explicit Training(int rank)
      : rank_(rank),
        controller_({.rank = rank,
                     .slice_elems = 1 << 18,
                     .algorithms = {.world_size = kRanks},
                     .clock = &clock_}) {
    const auto spec = std::make_shared<const AutoSpec>(*MakeAutoSpec("auto"));
    for (int t = 0; t < kTensors; ++t) {
      auto tensor = std::make_unique<TensorState>();
      tensor->id = t + 1;
      tensor->name = "layer" + std::to_string(t) + ".weight";
      // A row too long to be probed.
      tensor->shape = {1, kElems};
      tensor->elems = kElems;
      tensor->TakeLadder(spec, kRanks);
      tensors_.push_back(tensor.get());
      owned_.push_back(std::move(tensor));
    }
    controller_.Enable();
  }

  void Step() {
    controller_.BeginStep(turn_, turn_);
    for (TensorState* tensor : tensors_) {
      clock_.Advance(static_cast<int64_t>(kStepNs / (2 * kTensors)));
      benchmark::DoNotOptimize(controller_.RungFor(*tensor, turn_, true));
      controller_.NoteSubmit(tensor, nullptr);
      tensor->tally.energy = 1, tensor->tally.error = 1e-5, tensor->tally.codec_ns = 20'000;
    }
    for (int t = 0; t < kTensors; ++t)
      controller_.NoteOperation(turn_, clock_.NowNs() - kNsPerMs, clock_.NowNs() + t);
    clock_.Advance(static_cast<int64_t>(kStepNs / 2));
    controller_.NoteBlocked(static_cast<int64_t>(kStepNs / 2));
    const std::string observation = controller_.TakeObservation();
    vote_bytes_ += static_cast<int64_t>(observation.size());
    controller_.EndTurn(turn_, true, rank_ == 0 ? Advise(observation) : std::string(), tensors_);
    ++turn_;
  }

  int64_t vote_bytes() const { return vote_bytes_; }

 private:
  std::string Advise(const std::string& observation) {
    const std::vector<std::string> ranks(kRanks, observation);
    return controller_.Advise(turn_, ranks, tensors_);
  }

  const int rank_;
  ManualClock clock_{1};
  Controller controller_;
  std::vector<std::unique_ptr<TensorState>> owned_;
  std::vector<TensorState*> tensors_;
  uint16_t turn_ = 0;
  int64_t vote_bytes_ = 0;
};

void BM_Step(benchmark::State& state) {
  Training training(static_cast<int>(state.range(0)));
  for (int step = 0; step < kWarmUp; ++step) training.Step();
  const int64_t before = training.vote_bytes();
  for (auto _ : state) training.Step();
  const auto steps = static_cast<double>(state.iterations());
  state.counters["vote_bytes"] = static_cast<double>(training.vote_bytes() - before) / steps;
  state.counters["step_share"] = benchmark::Counter(
      steps * kStepNs * 1e-9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_Step)->ArgName("rank")->Arg(0)->Arg(1);

// All tensors on five rungs, in a step that waits for the wire.
void BM_Search(benchmark::State& state) {
  constexpr int kRungs = 5;
  JobFacts job = {.world_size = kRanks, .slice_elems = 1 << 18};
  job.candidates.resize(kRungs);
  ModelState model = {.us_per_message = 10, .us_per_byte = 0.001, .compute_us = 1e-3 * kStepNs};
  for (int t = 0; t < kTensors; ++t) {
    JobTensor tensor = {.elems = t % 2 == 0 ? kElems : 1000};
    for (int rung = 0; rung < kRungs; ++rung)
      tensor.ladder.push_back({rung, std::ldexp(4.0 * static_cast<double>(tensor.elems), -rung)});
    job.tensors.push_back(std::move(tensor));
    model.ready_us.push_back(model.compute_us * (t + 1) / kTensors);
  }
  for (int rung = 0; rung < kRungs; ++rung) model.codec_us_per_elem.push_back(1e-4 * rung);
  const Allowed allowed(kTensors, std::vector<bool>(kRungs, true));
  for (auto _ : state) benchmark::DoNotOptimize(BestPlan(job, model, allowed));
}
BENCHMARK(BM_Search);

}  // namespace
}  // namespace gradwire

BENCHMARK_MAIN();
