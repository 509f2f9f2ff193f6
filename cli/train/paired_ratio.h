// How much longer one of two things takes, and how sure that is.
#ifndef GRADWIRE_CLI_TRAIN_PAIRED_RATIO_H_
#define GRADWIRE_CLI_TRAIN_PAIRED_RATIO_H_

#include <cstdint>
#include <optional>
#include <span>

namespace gradwire {

struct Interval {
  double low = 0, high = 0;
};

struct PairedRatio {
  double value = 1;
  std::optional<Interval> interval;  // 95 %; none from fewer than two pairs
};

// Geometric mean of times[i] / base[i], which were measured next to each other; its interval from
// a bootstrap over the pairs (percentiles of resampled means), fixed by `seed`. One length, at
// least 1; all positive.
PairedRatio RatioOf(std::span<const double> times, std::span<const double> base, uint64_t seed);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TRAIN_PAIRED_RATIO_H_
