#include "cli/report/plot_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace gradwire {
namespace {

// Ends are ticks in spite of rounding.
constexpr double kRounding = 1e-9;
constexpr size_t kMostTicks = 12, kFewestTicks = 3;
constexpr int kAboutTicks = 6;
// Larger values are not shown: differences of two would be infinite.
constexpr double kLargest = 1e300;
// A narrower range, relative to its ends, has no ticks that differ.
constexpr double kNarrowest = 1e-6;

// The next of 1, 2, 5, 10 ... (times a power of ten) that is not below `rough`.
double RoundStep(double rough) {
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * (1 - kRounding)) return factor * power;
  }
  return 10 * power;
}

}  // namespace

PlotScale::PlotScale(const PlotAxis& axis, const std::vector<double>& values)
    : logarithmic_(axis.logarithmic) {
  std::vector<double> shown;
  std::ranges::copy_if(values, std::back_inserter(shown), [this](double value) {
    return std::abs(value) <= kLargest && (value > 0 || !logarithmic_);
  });
  if (shown.empty()) shown = {1.0};
  const auto [least, most] = std::ranges::minmax(shown);
  const auto end_of = [](const std::optional<double>& given, double fitted) {
    return given ? std::clamp(*given, -kLargest, kLargest) : fitted;
  };
  low_ = end_of(axis.low, logarithmic_ ? least : std::min(least, 0.0));
  high_ = end_of(axis.high, most);
  if (logarithmic_ && low_ <= 0) low_ = least;
  // One value alone is a plot too, and in the middle of a logarithmic one.
  const double narrowest = kNarrowest * std::max(std::abs(low_), std::abs(high_));
  if (high_ - low_ > narrowest) return;
  high_ = logarithmic_ ? 2 * low_ : low_ + std::max(1.0, narrowest);
  if (logarithmic_ && !axis.low) low_ /= 2;
}

double PlotScale::Position(double value) const {
  if (!logarithmic_) return (value - low_) / (high_ - low_);
  // What has no logarithm lies below the plot.
  constexpr double kBelow = 1e-3;
  return std::log(std::max(value, kBelow * low_) / low_) / std::log(high_ / low_);
}

std::vector<double> PlotScale::Ticks() const {
  if (!logarithmic_) return LinearTicks();
  // Within a few octaves round values on a linear scale are closer.
  std::vector<double> ticks = LogarithmicTicks();
  return ticks.size() < kFewestTicks ? LinearTicks() : ticks;
}

std::vector<double> PlotScale::LinearTicks() const {
  const double step = RoundStep((high_ - low_) / kAboutTicks);
  const double first = std::ceil(low_ / step - kRounding);
  std::vector<double> ticks;
  for (int i = 0; first + i <= high_ / step + kRounding; ++i)
    ticks.push_back((first + i) * step + 0.0);  // never -0
  return ticks;
}

// The closest of these grids with few enough ticks: 1 2 5 10, 1 10, every second power of ten ...
std::vector<double> PlotScale::LogarithmicTicks() const {
  const int first = static_cast<int>(std::floor(std::log10(low_)));
  const auto ticks_of = [&](std::initializer_list<double> factors, int stride) {
    std::vector<double> ticks;
    for (int power = first; std::pow(10.0, power) <= high_ * (1 + kRounding); ++power) {
      if (power % stride != 0) continue;
      for (const double factor : factors) {
        const double tick = factor * std::pow(10.0, power);
        if (tick >= low_ * (1 - kRounding) && tick <= high_ * (1 + kRounding))
          ticks.push_back(tick);
      }
    }
    return ticks;
  };
  std::vector<double> ticks = ticks_of({1.0, 2.0, 5.0}, 1);
  for (int stride = 1; ticks.size() > kMostTicks; ++stride) ticks = ticks_of({1.0}, stride);
  return ticks;
}

std::string TickText(double value) {
  constexpr std::array<std::pair<double, char>, 4> kUnits = {
      {{1e12, 'T'}, {1e9, 'G'}, {1e6, 'M'}, {1e3, 'k'}}};
  for (const auto& [unit, letter] : kUnits) {
    if (std::abs(value) >= unit * (1 - kRounding))
      return fmt::format("{:.6g}{}", value / unit, letter);
  }
  return fmt::format("{:.6g}", value);
}

}  // namespace gradwire
