// Speed of one rank's step with a method of whole tensors on one core: a matrix of 4096 x 4096
// float32, cold, whose own carriers come back as the sums. Every iteration measures in turn memcpy
// of the matrix and the step, so that ratios depend little on what else the machine does.
// `fill_memcpys` and `absorb_memcpys` are what the step spends in either, in memcpy times.
//
//   bazel run -c opt //bench/micro:carriers_bench -- --benchmark_filter=separate
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/view.h"
#include "base/workspace.h"
#include "bench/micro/timing.h"
#include "compress/registry.h"

namespace gradwire {
namespace {

constexpr int64_t kShape[] = {4096, 4096};
constexpr int64_t kElems = kShape[0] * kShape[1];
constexpr int kIterations = 15;

// Where the next residual goes: to an array of its own, as in a step that may be retried, or over
// the last.
enum class Residual { kSeparate, kInPlace };

struct Times {
  double fill = 0, absorb = 0;  // seconds
};

// Arrays start at different distances from a page, so that streams do not collide in the sets of a
// cache.
class Rank {
 public:
  Rank(const CarrierMethod& method, Residual mode) : method_(method) {
    const TensorMeta meta = {.shape = kShape, .elems = kElems, .has_residual = true};
    Allocate(&grad_, 4 * kElems);
    Allocate(&e_in_, 4 * kElems + 1024);
    Allocate(&e_out_, 4 * kElems + 2048);
    Allocate(&out_, 4 * kElems + 3072);
    Allocate(&agreed_, method.AgreedBytes(meta, 1));
    Allocate(&workspace_, method.WorkspaceBytes(meta, 1));
    Allocate(&replicated_in_, method.ReplicatedBytes(meta, 1));
    Allocate(&replicated_out_, method.ReplicatedBytes(meta, 1));
    RandomStream random(1);
    for (int64_t i = 0; i < kElems; ++i) {
      grad_.as<float>()[i] = static_cast<float>(random.Unit() - 0.5);
    }
    const View e_in = FloatView(e_in_.as<float>() + 256, kElems);
    const View e_out = FloatView(e_out_.as<float>() + 512, kElems);
    view_ = {.meta = meta,
             .grad = FloatView(grad_.as<float>(), kElems),
             .e_in = e_in,
             .e_out = mode == Residual::kSeparate ? e_out : e_in,
             .replicated_in = replicated_in_.bytes(),
             .replicated_out = replicated_out_.bytes(),
             .out = FloatView(out_.as<float>() + 768, kElems),
             .agreed = agreed_.bytes(),
             .workspace = workspace_.bytes()};
  }

  double MemcpySeconds() {
    FlushAll();
    return Seconds([&] { std::memcpy(view_.out.data, grad_.data(), size_t{4} * kElems); });
  }

  Times Step() {
    FlushAll();
    Times times;
    for (int round = 0; round < method_.rounds(); ++round) {
      const RoundSpec spec = method_.Round(round, view_.meta, 1, view_.agreed, view_.replicated_in);
      if (!carrier_.EnsureBytes(spec.elems * SizeOf(spec.dtype)).ok()) std::abort();
      const View carrier = {carrier_.data(), spec.elems, spec.dtype};
      EncodeStats stats;
      view_.stats = &stats;
      times.fill += Seconds([&] { Check(method_.Fill(round, view_, carrier, nullptr)); });
      view_.stats = nullptr;
      times.absorb += Seconds([&] { Check(method_.Absorb(round, carrier, view_, nullptr)); });
    }
    return times;
  }

 private:
  static void Check(const Status& status) {
    if (!status.ok()) std::abort();
  }
  void FlushAll() {
    for (const AlignedBuffer* b : {&grad_, &e_in_, &e_out_, &out_, &workspace_}) Flush(*b);
  }

  const CarrierMethod& method_;
  AlignedBuffer grad_, e_in_, e_out_, out_, agreed_, workspace_, replicated_in_, replicated_out_;
  AlignedBuffer carrier_;
  StepView view_;
};

void RunSteps(benchmark::State& state, const std::string& spec, Residual mode) {
  const StatusOr<Codec> codec = MakeCodec(spec);
  if (!codec.ok()) return state.SkipWithError(codec.status().ToString().c_str());
  Rank rank(*codec->carrier, mode);
  rank.Step();
  std::vector<double> times, fills, absorbs;
  for (auto _ : state) {
    const double copy = rank.MemcpySeconds();
    const Times step = rank.Step();
    state.SetIterationTime(step.fill + step.absorb);
    times.push_back(step.fill + step.absorb);
    fills.push_back(step.fill / copy);
    absorbs.push_back(step.absorb / copy);
  }
  if (times.empty()) return;
  state.counters["median_ms"] = Median(times) * 1e3;
  state.counters["fill_memcpys"] = Median(fills);
  state.counters["absorb_memcpys"] = Median(absorbs);
}

void RegisterAll() {
  for (const char* spec : {"powersgd(rank=4)", "acp(rank=4)", "topk(0.01)", "randk(0.01)"}) {
    for (Residual mode : {Residual::kSeparate, Residual::kInPlace}) {
      const bool separate = mode == Residual::kSeparate;
      const std::string name = std::string(spec) + (separate ? "/separate" : "/in_place");
      benchmark::RegisterBenchmark(name.c_str(),
                                   [=](benchmark::State& state) { RunSteps(state, spec, mode); })
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond)
          ->Iterations(kIterations);
    }
  }
}

}  // namespace
}  // namespace gradwire

int main(int argc, char** argv) {
  gradwire::RegisterAll();
  return gradwire::RunBenchmarks(argc, argv);
}
