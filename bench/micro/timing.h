// What the micro benchmarks measure with: buffers, cold caches, one call's time, medians of ratios.
#ifndef GRADWIRE_BENCH_MICRO_TIMING_H_
#define GRADWIRE_BENCH_MICRO_TIMING_H_

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/workspace.h"

namespace gradwire {

// `bytes` of zeros, all of them touched.
inline void Allocate(AlignedBuffer* buffer, int64_t bytes) {
  if (!buffer->EnsureBytes(bytes).ok()) std::abort();
  std::memset(buffer->data(), 0, static_cast<size_t>(bytes));
}

// Puts the buffer out of every cache.
inline void Flush(const AlignedBuffer& buffer) {
#if defined(__x86_64__)
  for (int64_t i = 0; i < buffer.size(); i += 64) _mm_clflush(buffer.data() + i);
  _mm_mfence();
#endif
}

template <typename Call>
double Seconds(Call call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  benchmark::ClobberMemory();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

inline double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// The rest of a benchmark program's main(), once all is registered: its exit code.
inline int RunBenchmarks(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace gradwire

#endif  // GRADWIRE_BENCH_MICRO_TIMING_H_
