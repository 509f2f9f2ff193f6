// How much of the communication hides behind computation, through the public API: a step of equal
// tensors, each computed and then submitted, against the same step with all submitted at the end.
//
//   gradwire run -n 2 --netlab 1gbit -- .../bench/overlap/overlap_bench
//
// "Computing" is a timed wait, the processor free, as where a GPU computes. It takes as long in all
// as the communication does alone. Steps of both kinds take turns.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cli/measure/quantile.h"
#include "gradwire/gradwire.h"

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

struct Options {
  int tensors = 25;
  int64_t bytes = 25 << 20;  // of all tensors
  int steps = 20;            // of each kind
  std::string spec = "none";
};

double QuantileOf(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return gradwire::Quantile(values, q);
}

class OverlapBench {
 public:
  explicit OverlapBench(const Options& options) : options_(options) {
    Check(gwCommInitEnv(&comm_, nullptr));
    Check(gwCommUserRank(comm_, &rank_));
    const int64_t elems = options.bytes / options.tensors / static_cast<int64_t>(sizeof(float));
    gwTensorConfig_t config = GW_TENSOR_CONFIG_INITIALIZER;
    config.spec = options.spec.c_str();
    for (int i = 0; i < options.tensors; ++i) {
      gradients_.emplace_back(elems, 1.0f);
      gwTensor_t tensor = nullptr;
      Check(gwTensorRegister(comm_, std::to_string(i).c_str(), &elems, 1, gwFloat32, &config,
                             &tensor));
      tensors_.push_back(tensor);
    }
    requests_.resize(tensors_.size());
  }
  ~OverlapBench() { (void)gwCommDestroy(comm_); }

  void Run() {
    const double alone_s = Alone();
    compute_ = std::chrono::duration_cast<Clock::duration>(Seconds(alone_s / options_.tensors));
    std::vector<double> asap, at_end;
    for (int i = 0; i < options_.steps; ++i) {
      asap.push_back(Step(/*asap=*/true));
      at_end.push_back(Step(/*asap=*/false));
    }
    Check(gwCommFinalize(comm_));
    if (rank_ != 0) return;
    const double asap_s = QuantileOf(asap, 0.5), at_end_s = QuantileOf(at_end, 0.5);
    fmt::print("# {} tensors, {} bytes, {}; medians of {} steps\n", options_.tensors,
               options_.bytes, options_.spec, options_.steps);
    fmt::print("communication alone   {:9.3f} ms, computation the same\n", alone_s * 1e3);
    fmt::print("submitted at the end  {:9.3f} ms a step\n", at_end_s * 1e3);
    fmt::print("submitted as computed {:9.3f} ms a step, ratio {:.3f}\n", asap_s * 1e3,
               asap_s / at_end_s);
    fmt::print("gwAllReduceTensor     {:9.1f} us p50, {:.1f} us p99 of {} calls\n",
               QuantileOf(submits_, 0.5) * 1e6, QuantileOf(submits_, 0.99) * 1e6, submits_.size());
  }

 private:
  void Check(gwResult_t result) const {
    if (result != gwSuccess) throw std::runtime_error(gwGetLastError(comm_));
  }

  // Equal on all ranks, as all compute at the same pace.
  double Alone() {
    std::vector<double> times;
    for (int i = 0; i < options_.steps; ++i) times.push_back(Step(/*asap=*/false));
    double median = QuantileOf(times, 0.5);
    Check(gwAllReduce(&median, &median, 1, gwFloat64, gwMax, comm_, nullptr));
    submits_.clear();
    return median;
  }

  double Step(bool asap) {
    Check(gwBarrier(comm_, nullptr));
    const auto begin = Clock::now();
    Check(gwStepBegin(comm_, step_++));
    for (size_t i = 0; i < tensors_.size(); ++i) {
      ComputeUntil(begin + (i + 1) * compute_);
      if (asap) Submit(i);
    }
    for (size_t i = 0; !asap && i < tensors_.size(); ++i) Submit(i);
    for (gwRequest_t request : requests_) {
      Check(gwRequestWait(request, -1));
      Check(gwRequestFree(request));
    }
    gwStepOutcome_t outcome = gwStepAborted;
    Check(gwStepEnd(comm_, &outcome));
    if (outcome != gwStepCommitted) throw std::runtime_error(gwGetLastError(comm_));
    return Seconds(Clock::now() - begin).count();
  }

  // Absolute: what one wait is late does not add to the next.
  void ComputeUntil(Clock::time_point end) const {
    if (compute_ > Clock::duration(0)) std::this_thread::sleep_until(end);
  }

  void Submit(size_t i) {
    float* gradient = gradients_[i].data();
    const auto begin = Clock::now();
    Check(gwAllReduceTensor(tensors_[i], gradient, gradient, gwAvg, nullptr, &requests_[i]));
    submits_.push_back(Seconds(Clock::now() - begin).count());
  }

  const Options options_;
  gwComm_t comm_ = nullptr;
  int rank_ = 0;
  uint64_t step_ = 0;
  Clock::duration compute_{0};  // of each tensor
  std::vector<std::vector<float>> gradients_;
  std::vector<gwTensor_t> tensors_;
  std::vector<gwRequest_t> requests_;
  std::vector<double> submits_;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Overlap of computation and communication, from a launcher's ranks");
  app.add_option("--tensors", options.tensors, "tensors of a step")->check(CLI::Range(1, 100'000));
  app.add_option("--bytes", options.bytes, "their bytes in all")->check(CLI::PositiveNumber);
  app.add_option("--steps", options.steps, "steps of each kind")->check(CLI::PositiveNumber);
  app.add_option("-x,--spec", options.spec, "codec");
  CLI11_PARSE(app, argc, argv);
  try {
    OverlapBench(options).Run();
  } catch (const std::exception& e) {
    fmt::print(stderr, "overlap_bench: {}\n", e.what());
    return 1;
  }
  return 0;
}
