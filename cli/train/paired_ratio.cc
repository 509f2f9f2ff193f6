#include "cli/train/paired_ratio.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

#include "base/rng.h"
#include "cli/measure/quantile.h"

namespace gradwire {
namespace {

// Enough for two digits of the interval's ends.
constexpr int kResamples = 4000;

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

Interval Bootstrap(const std::vector<double>& values, uint64_t seed) {
  RandomStream random(seed);
  std::vector<double> means, sample(values.size());
  for (int r = 0; r < kResamples; ++r) {
    for (double& value : sample) value = values[random.Below(values.size())];
    means.push_back(Mean(sample));
  }
  std::sort(means.begin(), means.end());
  return {.low = Quantile(means, 0.025), .high = Quantile(means, 0.975)};
}

}  // namespace

PairedRatio RatioOf(std::span<const double> times, std::span<const double> base, uint64_t seed) {
  std::vector<double> logs;
  for (size_t i = 0; i < times.size(); ++i) logs.push_back(std::log(times[i] / base[i]));
  PairedRatio ratio = {.value = std::exp(Mean(logs))};
  if (logs.size() < 2) return ratio;
  const Interval interval = Bootstrap(logs, seed);
  ratio.interval = {.low = std::exp(interval.low), .high = std::exp(interval.high)};
  return ratio;
}

}  // namespace gradwire
