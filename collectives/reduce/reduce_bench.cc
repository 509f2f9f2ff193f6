// Bytes of output per second of the reduction kernels, in cache and from memory.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <string>
#include <vector>

#include "collectives/reduce/reduce.h"
#include "compress/kernels/dispatch.h"

namespace gradwire {
namespace {

void Reduce(benchmark::State& state, SimdTarget target, DType dtype, ReduceOp op) {
  const int64_t bytes = state.range(0);
  // 0x3F in every byte: ordinary numbers in all types.
  std::vector<std::byte> a(bytes, std::byte{0x3F}), b(bytes, std::byte{0x3F}), out(bytes);
  ForceTargetForTest(Name(target));
  for (auto _ : state) {
    ReduceInto(dtype, op, {a.data(), bytes}, {b.data(), bytes}, {out.data(), bytes});
    benchmark::ClobberMemory();
  }
  ForceTargetForTest({});
  state.SetBytesProcessed(state.iterations() * bytes);
}

void Average(benchmark::State& state, DType dtype) {
  const int64_t bytes = state.range(0);
  std::vector<std::byte> values(bytes, std::byte{0x3F});
  const View view = {values.data(), bytes / SizeOf(dtype), dtype};
  for (auto _ : state) {
    ScaleAvg(dtype, view, 2);  // of 1 rank nothing is done; they end as zeros
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * bytes);
}

void Register() {
  for (int d = 0; d < kDTypes; ++d) {
    const auto dtype = static_cast<DType>(d);
    benchmark::RegisterBenchmark(("average/" + std::string(Name(dtype))).c_str(),
                                 [=](benchmark::State& s) { Average(s, dtype); })
        ->Arg(64 << 10)
        ->Arg(32 << 20);
  }
  for (SimdTarget target : SupportedTargets()) {
    if (target == SimdTarget::kSse4) continue;
    for (int d = 0; d < kDTypes; ++d) {
      for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax}) {
        const DType dtype = static_cast<DType>(d);
        std::string name = "reduce/";
        name.append(Name(target)).append("/").append(Name(dtype)).append("/").append(Name(op));
        benchmark::RegisterBenchmark(name.c_str(),
                                     [=](benchmark::State& s) { Reduce(s, target, dtype, op); })
            ->Arg(64 << 10)
            ->Arg(32 << 20);
      }
    }
  }
}

}  // namespace
}  // namespace gradwire

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  gradwire::Register();
  benchmark::RunSpecifiedBenchmarks();
}
