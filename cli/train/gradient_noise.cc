#include "cli/train/gradient_noise.h"

#include <cmath>
#include <cstddef>
#include <numbers>

#include "base/rng.h"

namespace gradwire {
namespace {

// Elements after which the noise repeats: a prime, so that no row, slice or block meets the same
// piece twice.
constexpr size_t kPeriod = 1'048'573;
// Of the logarithm of a tensor's scale: nine of ten lie within a factor of 12 of the median.
constexpr double kScaleSpread = 1.5;
// Streams of the run's seed.
enum Stream : uint64_t { kScales, kOffsets, kSharedNoise, kOwnNoise };

double Normal(RandomStream* random) {
  const double radius = std::sqrt(-2 * std::log(1 - random->Unit()));
  return radius * std::cos(2 * std::numbers::pi * random->Unit());
}

std::vector<float> NormalNoise(RandomStream random) {
  std::vector<float> noise(kPeriod);
  for (float& value : noise) value = static_cast<float>(Normal(&random));
  return noise;
}

// A stream of its own for each (tensor, version).
RandomStream StreamOf(uint64_t seed, Stream stream, int tensor, int version) {
  const auto index = static_cast<uint64_t>(tensor) << 32 | static_cast<uint32_t>(version);
  return RandomStream(seed + (index << 2), stream);
}

}  // namespace

GradientNoise::GradientNoise(uint64_t seed, int rank)
    : seed_(seed),
      shared_(NormalNoise(RandomStream(seed, kSharedNoise))),
      own_(NormalNoise(RandomStream(seed, kOwnNoise + static_cast<uint64_t>(rank)))) {}

double GradientNoise::Scale(int tensor) const {
  RandomStream random = StreamOf(seed_, kScales, tensor, 0);
  return std::exp(kScaleSpread * Normal(&random));
}

void GradientNoise::Fill(int tensor, int version, std::span<float> gradient) const {
  RandomStream random = StreamOf(seed_, kOffsets, tensor, version);
  size_t shared = random.Below(kPeriod), own = random.Below(kPeriod);
  const double scale = Scale(tensor);
  const auto shared_scale = static_cast<float>(scale * std::sqrt(kRankCorrelation));
  const auto own_scale = static_cast<float>(scale * std::sqrt(1 - kRankCorrelation));
  for (float& value : gradient) {
    value = shared_scale * shared_[shared] + own_scale * own_[own];
    if (++shared == kPeriod) shared = 0;
    if (++own == kPeriod) own = 0;
  }
}

}  // namespace gradwire
