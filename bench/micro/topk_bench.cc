// Speed of top-k selection and of index lists on one core: 64 MiB of float32, cold. Every iteration
// measures in turn memcpy of the elements, std::nth_element over a copy of their magnitudes, and
// the operation, so that ratios depend little on what else the machine does. For x_nth_element the
// copy is not timed, for x_copy_nth_element it is.
//
//   bazel run -c opt //bench/micro:topk_bench -- --benchmark_filter=avx2
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/view.h"
#include "base/workspace.h"
#include "bench/micro/timing.h"
#include "compress/kernels/dispatch.h"
#include "compress/kernels/index_list/index_list.h"
#include "compress/kernels/topk/topk.h"

namespace gradwire {
namespace {

constexpr int64_t kElems = int64_t{16} << 20;
constexpr int kIterations = 15;

// Arrays start at different distances from a page, so that streams do not collide in the sets of a
// cache.
struct Buffers {
  AlignedBuffer grad, residual, copy, workspace, list, indices;
  int64_t k;

  explicit Buffers(double density) : k(static_cast<int64_t>(kElems * density)) {
    Allocate(&grad, 4 * kElems);
    Allocate(&residual, 4 * kElems + 1024);
    Allocate(&copy, 4 * kElems + 2048);
    Allocate(&workspace, TopkWorkspaceBytes(kElems, k));
    Allocate(&list, IndexListBytes(kElems, k));
    Allocate(&indices, 4 * k);
    RandomStream random(1);
    for (int64_t i = 0; i < kElems; ++i) {
      const double radius = std::sqrt(-2 * std::log(1 - random.Unit()));
      grad.as<float>()[i] = static_cast<float>(radius * std::cos(2 * M_PI * random.Unit()));
    }
  }

  float* e_in() { return residual.as<float>() + 256; }
  float* destination() { return copy.as<float>() + 512; }
  std::span<uint32_t> selected() { return {indices.as<uint32_t>(), static_cast<size_t>(k)}; }
  void FlushAll() {
    for (const AlignedBuffer* b : {&grad, &residual, &copy, &workspace, &list, &indices}) Flush(*b);
  }
};

void Select(Buffers* b) {
  const InputJob input = {.grad = b->grad.data(), .elems = kElems};
  benchmark::DoNotOptimize(SelectTopk(input, b->workspace.bytes(), b->selected()));
}

void SelectWithFeedback(Buffers* b) {
  const InputJob input = {
      .grad = b->grad.data(), .e_in = b->e_in(), .e_out = b->destination(), .elems = kElems};
  benchmark::DoNotOptimize(SelectTopk(input, b->workspace.bytes(), b->selected()));
}

void EncodeList(Buffers* b) { EncodeIndexList(b->selected(), kElems, b->list.data()); }

void DecodeList(Buffers* b) {
  if (!DecodeIndexList(b->list.bytes(), kElems, b->selected()).ok()) std::abort();
}

struct Operation {
  const char* name;
  void (*run)(Buffers*);
  bool has_targets;
};

constexpr Operation kOperations[] = {{"select", Select, true},
                                     {"select_feedback", SelectWithFeedback, true},
                                     {"index_list_encode", EncodeList, false},
                                     {"index_list_decode", DecodeList, false}};

double MemcpySeconds(Buffers* b) {
  b->FlushAll();
  return Seconds([&] { std::memcpy(b->destination(), b->grad.data(), size_t{4} * kElems); });
}

struct NthElement {
  double copy, select;  // seconds
};

NthElement NthElementSeconds(Buffers* b) {
  float* magnitudes = b->destination();
  b->FlushAll();
  const double copy = Seconds([&] {
    for (int64_t i = 0; i < kElems; ++i) magnitudes[i] = std::fabs(b->grad.as<float>()[i]);
  });
  b->FlushAll();
  const double select = Seconds([&] {
    std::nth_element(magnitudes, magnitudes + b->k, magnitudes + kElems, std::greater<>());
  });
  return {copy, select};
}

void RunOperation(benchmark::State& state, const Operation& operation, SimdTarget target,
                  double density) {
  ForceTargetForTest(Name(target));
  Buffers buffers(density);
  Select(&buffers);
  EncodeList(&buffers);
  std::vector<double> times, to_memcpy, to_nth_element, to_copy_nth_element;
  for (auto _ : state) {
    const double copy = MemcpySeconds(&buffers);
    const NthElement control = NthElementSeconds(&buffers);
    buffers.FlushAll();
    const double time = Seconds([&] { operation.run(&buffers); });
    state.SetIterationTime(time);
    times.push_back(time);
    to_memcpy.push_back(copy / time);
    to_nth_element.push_back(control.select / time);
    to_copy_nth_element.push_back((control.copy + control.select) / time);
  }
  if (!times.empty()) {
    state.counters["median_ms"] = Median(times) * 1e3;
    state.counters["x_memcpy"] = Median(to_memcpy);
    state.counters["x_nth_element"] = Median(to_nth_element);
    state.counters["x_copy_nth_element"] = Median(to_copy_nth_element);
  }
  ForceTargetForTest("");
}

void RegisterOperation(const Operation& operation, SimdTarget target, double density) {
  std::string name = std::string(operation.name) + "/" + (density == 0.01 ? "0.01" : "0.001");
  if (operation.has_targets) name += "/" + std::string(Name(target));
  benchmark::RegisterBenchmark(
      name.c_str(),
      [=](benchmark::State& state) { RunOperation(state, operation, target, density); })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond)
      ->Iterations(kIterations);
}

void RegisterAll() {
  for (const Operation& operation : kOperations) {
    for (double density : {0.01, 0.001}) {
      if (!operation.has_targets) {
        RegisterOperation(operation, ActiveTarget(), density);
        continue;
      }
      for (SimdTarget target : SupportedTargets()) {
        if (target != SimdTarget::kScalar) RegisterOperation(operation, target, density);
      }
    }
  }
}

}  // namespace
}  // namespace gradwire

int main(int argc, char** argv) {
  gradwire::RegisterAll();
  return gradwire::RunBenchmarks(argc, argv);
}
