#include "cli/train/gradient_noise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gradwire {
namespace {

constexpr size_t kElems = 100'000;
// Four standard errors of a mean of kElems products of unit normal numbers.
const double kTolerance = 4 / std::sqrt(static_cast<double>(kElems));

std::vector<float> GradientOf(int rank, int tensor, int version) {
  std::vector<float> gradient(kElems);
  GradientNoise(7, rank).Fill(tensor, version, gradient);
  return gradient;
}

double MeanProduct(const std::vector<float>& a, const std::vector<float>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0) / static_cast<double>(a.size());
}

TEST(GradientNoise, HasItsScaleAndTheRanksCorrelation) {
  const double scale = GradientNoise(7, 0).Scale(3);
  const std::vector<float> a = GradientOf(0, 3, 0), b = GradientOf(1, 3, 0);
  EXPECT_NEAR(MeanProduct(a, a) / (scale * scale), 1, 2 * kTolerance);
  EXPECT_NEAR(MeanProduct(a, b) / (scale * scale), kRankCorrelation, kTolerance);
}

TEST(GradientNoise, VersionsAndTensorsDiffer) {
  const GradientNoise noise(7, 0);
  const std::vector<float> a = GradientOf(0, 3, 0);
  EXPECT_NEAR(MeanProduct(a, GradientOf(0, 3, 1)) / std::pow(noise.Scale(3), 2), 0, kTolerance);
  EXPECT_NEAR(MeanProduct(a, GradientOf(0, 4, 0)) / (noise.Scale(3) * noise.Scale(4)), 0,
              kTolerance);
}

TEST(GradientNoise, IsFixed) {
  EXPECT_EQ(GradientOf(1, 2, 1), GradientOf(1, 2, 1));
  EXPECT_EQ(GradientNoise(7, 0).Scale(5), GradientNoise(7, 1).Scale(5));
  EXPECT_NE(GradientNoise(7, 0).Scale(5), GradientNoise(8, 0).Scale(5));
}

// Larger than the period, so that the noise is repeated.
TEST(GradientNoise, FillsLargeTensorsToTheEnd) {
  std::vector<float> gradient(3'000'000, NAN);
  GradientNoise(7, 0).Fill(0, 0, gradient);
  EXPECT_TRUE(
      std::all_of(gradient.begin(), gradient.end(), [](float v) { return std::isfinite(v); }));
}

TEST(GradientNoise, ScalesAreHeavyTailed) {
  const GradientNoise noise(7, 0);
  std::vector<double> scales;
  for (int tensor = 0; tensor < 200; ++tensor) scales.push_back(noise.Scale(tensor));
  const auto [least, most] = std::minmax_element(scales.begin(), scales.end());
  EXPECT_GT(*most / *least, 1000);
}

}  // namespace
}  // namespace gradwire
