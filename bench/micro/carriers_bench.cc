// Speed of one rank's step with a carrier method on one core: a matrix of 4096 x 4096 float32,
// cold, in the first step, whose own carriers come back as the sums. "untouched": all but each 64th
// row are zeros, as those of an embedding. Every iteration measures in turn memcpy of the matrix
// and the step, so that ratios depend little on what else the machine does. `fill_memcpys` and
// `absorb_memcpys` are what the step spends in either, in memcpy times.
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

// Where the next residual and local state go, if the codec has them: to arrays of their own, as in
// a step that may be retried, or over the last.
enum class Slots { kSeparate, kInPlace };

enum class Rows { kAll, kEach64th };

struct Times {
  double fill = 0, absorb = 0;  // seconds
};

// Arrays start at different distances from a page, so that streams do not collide in the sets of a
// cache.
class Rank {
 public:
  Rank(const Codec& codec, Slots mode, Rows rows) : method_(*codec.carrier) {
    const bool feedback = codec.feedback == Feedback::kOn;
    const TensorMeta meta = {.shape = kShape, .elems = kElems, .has_residual = feedback};
    Allocate(&grad_, 4 * kElems);
    Allocate(&agreed_, method_.AgreedBytes(meta, 1));
    Allocate(&workspace_, method_.WorkspaceBytes(meta, 1));
    Allocate(&replicated_in_, method_.ReplicatedBytes(meta, 1));
    Allocate(&replicated_out_, method_.ReplicatedBytes(meta, 1));
    RandomStream random(1);
    for (int64_t i = 0; i < kElems; ++i) {
      const auto value = static_cast<float>(random.Unit() - 0.5);
      if (rows == Rows::kAll || i / kShape[1] % 64 == 0) grad_.as<float>()[i] = value;
    }
    view_ = {.meta = meta,
             .grad = FloatView(grad_.as<float>(), kElems),
             .replicated_in = replicated_in_.bytes(),
             .replicated_out = replicated_out_.bytes(),
             .out = Floats(&out_, 768),
             .agreed = agreed_.bytes(),
             .workspace = workspace_.bytes()};
    const bool separate = mode == Slots::kSeparate;
    if (feedback) {
      const View e_in = Floats(&e_in_, 256);
      view_.e_in = e_in;
      view_.e_out = separate ? Floats(&e_out_, 512) : e_in;
    }
    if (method_.KeepsLocal()) {
      const View local_in = Floats(&local_in_, 1280);
      view_.local_in = local_in;
      view_.local_out = separate ? Floats(&local_out_, 1536) : local_in;
    }
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
  // `skip` floats into a buffer of their own.
  static View Floats(AlignedBuffer* buffer, int64_t skip) {
    Allocate(buffer, 4 * (kElems + skip));
    return FloatView(buffer->as<float>() + skip, kElems);
  }
  static void Check(const Status& status) {
    if (!status.ok()) std::abort();
  }
  void FlushAll() {
    for (const AlignedBuffer* b :
         {&grad_, &e_in_, &e_out_, &local_in_, &local_out_, &out_, &workspace_}) {
      Flush(*b);
    }
  }

  const CarrierMethod& method_;
  AlignedBuffer grad_, e_in_, e_out_, local_in_, local_out_, out_;
  AlignedBuffer agreed_, workspace_, replicated_in_, replicated_out_, carrier_;
  StepView view_;
};

void RunSteps(benchmark::State& state, const std::string& spec, Slots mode, Rows rows) {
  const StatusOr<Codec> codec = MakeCodec(spec);
  if (!codec.ok()) return state.SkipWithError(codec.status().ToString().c_str());
  Rank rank(*codec, mode, rows);
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

void Register(const std::string& spec, Slots mode, Rows rows) {
  const char* slots = mode == Slots::kSeparate ? "/separate" : "/in_place";
  const std::string name = spec + slots + (rows == Rows::kEach64th ? "/untouched" : "");
  benchmark::RegisterBenchmark(name.c_str(),
                               [=](benchmark::State& state) { RunSteps(state, spec, mode, rows); })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond)
      ->Iterations(kIterations);
}

void RegisterAll() {
  for (const char* spec : {"powersgd(rank=4)", "acp(rank=4)", "acp(rank=4,start_step=1)",
                           "topk(0.01)", "randk(0.01)", "topk(0.01,agreement=gather)",
                           "topk(0.01,agreement=gather,momentum=0.9)", "signsgd(momentum=0.9)"}) {
    for (Slots mode : {Slots::kSeparate, Slots::kInPlace}) Register(spec, mode, Rows::kAll);
  }
  for (const char* spec :
       {"qsgd(4,sum=carrier,feedback=on)", "qsgd(4,sum=carrier)", "terngrad", "intsgd"}) {
    for (Rows rows : {Rows::kAll, Rows::kEach64th}) Register(spec, Slots::kSeparate, rows);
  }
}

}  // namespace
}  // namespace gradwire

int main(int argc, char** argv) {
  gradwire::RegisterAll();
  return gradwire::RunBenchmarks(argc, argv);
}
