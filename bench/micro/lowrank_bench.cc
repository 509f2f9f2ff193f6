// Speed of low-rank compression on one core: a matrix of 4096 x 4096 float32, rank 4, cold. Every
// iteration measures in turn memcpy of the matrix and the operation, so that ratios depend little
// on what else the machine does. `memcpys` is the operation's time in memcpy times.
//
//   bazel run -c opt //bench/micro:lowrank_bench -- --benchmark_filter=avx2
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/view.h"
#include "base/workspace.h"
#include "bench/micro/timing.h"
#include "compress/kernels/dispatch.h"
#include "compress/kernels/lowrank/lowrank.h"

namespace gradwire {
namespace {

constexpr int64_t kRows = 4096;
constexpr int64_t kCols = 4096;
constexpr int kRank = 4;
constexpr int64_t kElems = kRows * kCols;
constexpr int kIterations = 15;

void FillRandom(AlignedBuffer* buffer, RandomStream* random) {
  for (int64_t i = 0; i < buffer->size() / 4; ++i) {
    buffer->as<float>()[i] = static_cast<float>(random->Unit() - 0.5);
  }
}

// Arrays start at different distances from a page, so that streams do not collide in the sets of a
// cache.
struct Buffers {
  AlignedBuffer grad, residual, next_residual, output, p, q, workspace;

  Buffers() {
    Allocate(&grad, 4 * kElems);
    Allocate(&residual, 4 * kElems + 1024);
    Allocate(&next_residual, 4 * kElems + 2048);
    Allocate(&output, 4 * kElems + 3072);
    Allocate(&p, 4 * kRows * kRank);
    Allocate(&q, 4 * kCols * kRank);
    Allocate(&workspace, LowRankWorkspaceBytes(kRows, kCols, kRank));
    RandomStream random(1);
    for (AlignedBuffer* b : {&grad, &residual, &p, &q}) FillRandom(b, &random);
  }

  float* e_in() { return residual.as<float>() + 256; }
  float* e_out() { return next_residual.as<float>() + 512; }
  std::byte* out() { return output.data() + 3072; }
  LowRankProduct product() { return {kRank, p.as<float>(), q.as<float>()}; }
  void FlushAll() {
    for (const AlignedBuffer* b : {&grad, &residual, &next_residual, &output, &p, &q}) Flush(*b);
  }
};

LowRankMatrix Sum(Buffers* b) {
  return {kRows, kCols, b->grad.data(), DType::kFloat32, 1, b->e_in()};
}
LowRankMatrix Gradient(Buffers* b) { return {kRows, kCols, b->grad.data()}; }
LowRankMatrix Stored(Buffers* b) {
  return {kRows, kCols, reinterpret_cast<const std::byte*>(b->e_out())};
}

// Q = (grad + e)^T P; the sum is counted.
void MultiplyByFirst(Buffers* b) {
  EncodeStats stats;
  MultiplyByP(Sum(b), b->p.as<float>(), kRank, b->workspace.bytes(),
              {.factor = b->q.as<float>(), .stats = &stats});
}

// Likewise, and the sum is kept in the next residual's place.
void MultiplyAndStore(Buffers* b) {
  EncodeStats stats;
  MultiplyByP(Sum(b), b->p.as<float>(), kRank, b->workspace.bytes(),
              {.factor = b->q.as<float>(), .m_out = b->e_out(), .stats = &stats});
}

void OrthonormalizeQ(Buffers* b) {
  Orthonormalize(kCols, kRank, Dither(), b->workspace.bytes(), b->q.as<float>());
}

// P = (grad + e) Q, and the next residual is the sum less P Q^T.
void MultiplyAndSubtract(Buffers* b) {
  MultiplyByQAndSubtract(Sum(b), b->q.as<float>(), kRank, b->workspace.bytes(),
                         {.p = b->p.as<float>(), .e_out = b->e_out()});
}

void MultiplyGradient(Buffers* b) {
  MultiplyByQ(Gradient(b), b->q.as<float>(), kRank, b->workspace.bytes(),
              {.factor = b->p.as<float>()});
}

void MultiplyGradientTransposed(Buffers* b) {
  MultiplyByP(Gradient(b), b->p.as<float>(), kRank, b->workspace.bytes(),
              {.factor = b->q.as<float>()});
}

void SubtractInPlace(Buffers* b) {
  SubtractProduct(Stored(b), b->product(), b->workspace.bytes(), b->e_out());
}

void StoreOutput(Buffers* b) {
  StoreProduct(b->product(), b->workspace.bytes(), {kRows, kCols, b->out()});
}

void StepWithFeedback(Buffers* b) {
  MultiplyByFirst(b);
  OrthonormalizeQ(b);
  MultiplyAndSubtract(b);
  StoreOutput(b);
}

void StepWithoutFeedback(Buffers* b) {
  MultiplyGradientTransposed(b);
  OrthonormalizeQ(b);
  MultiplyGradient(b);
  StoreOutput(b);
}

struct Operation {
  const char* name;
  void (*run)(Buffers*);
};

constexpr Operation kOperations[] = {
    {"multiply_by_p", MultiplyByFirst},    {"multiply_by_p_store", MultiplyAndStore},
    {"orthonormalize", OrthonormalizeQ},   {"multiply_by_q_subtract", MultiplyAndSubtract},
    {"subtract_product", SubtractInPlace}, {"store_product", StoreOutput},
    {"step_feedback", StepWithFeedback},   {"step", StepWithoutFeedback}};

void RunOperation(benchmark::State& state, const Operation& operation, SimdTarget target) {
  ForceTargetForTest(Name(target));
  Buffers buffers;
  MultiplyByFirst(&buffers);
  std::vector<double> times, memcpys;
  for (auto _ : state) {
    buffers.FlushAll();
    const double copy =
        Seconds([&] { std::memcpy(buffers.out(), buffers.grad.data(), size_t{4} * kElems); });
    buffers.FlushAll();
    const double time = Seconds([&] { operation.run(&buffers); });
    state.SetIterationTime(time);
    times.push_back(time);
    memcpys.push_back(time / copy);
  }
  if (!times.empty()) {
    state.counters["median_ms"] = Median(times) * 1e3;
    state.counters["memcpys"] = Median(memcpys);
  }
  ForceTargetForTest("");
}

void RegisterAll() {
  for (const Operation& operation : kOperations) {
    for (SimdTarget target : SupportedTargets()) {
      if (target == SimdTarget::kScalar) continue;
      const std::string name = std::string(operation.name) + "/" + std::string(Name(target));
      benchmark::RegisterBenchmark(
          name.c_str(), [=](benchmark::State& state) { RunOperation(state, operation, target); })
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
