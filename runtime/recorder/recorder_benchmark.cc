// Cost of one Record. The second argument is memory that is touched between two calls, in bytes: in
// a training step the ring has long left the cache when the next event comes.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/recorder/recorder.h"

namespace gradwire {
namespace {

std::string Folder(bool file) { return file ? "/dev/shm" : ""; }

void Remove(const Recorder& recorder) { std::remove(recorder.path().c_str()); }

void BM_Record(benchmark::State& state) {
  auto recorder = Recorder::Open({.dir = Folder(state.range(0) != 0)});
  if (!recorder.ok()) return state.SkipWithError(recorder.status().ToString().c_str());
  RecorderEvent event = {.kind = RecordKind::kSubmit,
                         .bytes = 1 << 20,
                         .dtype = DType::kFloat32,
                         .text = "all-reduce",
                         .tensor = "model.layers.31.self_attention.output.weight"};
  for (auto _ : state) {
    event.time_ns += 100;
    ++event.op_seq;
    (*recorder)->Record(event);
  }
  Remove(**recorder);
}
BENCHMARK(BM_Record)->ArgName("file")->Arg(0)->Arg(1);

// A burst of events after the caches have seen other work; the time is that of the burst alone.
void BM_RecordColdBurst(benchmark::State& state) {
  constexpr int kBurst = 64;
  auto recorder = Recorder::Open({.dir = Folder(true)});
  if (!recorder.ok()) return state.SkipWithError(recorder.status().ToString().c_str());
  std::vector<std::byte> other(64 << 20);
  for (auto _ : state) {
    state.PauseTiming();
    for (std::byte& b : other) b ^= std::byte{1};
    benchmark::ClobberMemory();
    state.ResumeTiming();
    for (int i = 0; i < kBurst; ++i) {
      (*recorder)->Record({.kind = RecordKind::kSliceDone, .time_ns = i, .text = "all-reduce"});
    }
  }
  Remove(**recorder);
  state.SetItemsProcessed(state.iterations() * kBurst);
}
BENCHMARK(BM_RecordColdBurst)->Iterations(200);

}  // namespace
}  // namespace gradwire

BENCHMARK_MAIN();
