// Test data that every rank can compute for every other, so that results are checked without
// asking the library under test: short sequences of a prime length, repeated.
#ifndef GRADWIRE_CLI_PERF_PATTERN_H_
#define GRADWIRE_CLI_PERF_PATTERN_H_

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/view.h"
#include "cli/perf/perf_case.h"

namespace gradwire {

// Element i of the pattern is tile[i mod tile.size()]; values are those the type can hold.
struct Pattern {
  std::vector<double> tile;

  double at(int64_t i) const {
    return tile[static_cast<size_t>(i % static_cast<int64_t>(tile.size()))];
  }
};

// Small integers of rank `rank`, such that any order of adding (or multiplying, ...) those of all
// ranks is exact in `dtype`.
Pattern ExactPattern(DType dtype, ReduceOp op, int rank, int ranks);
// Integers of rank `rank` from all that the type (and a double) holds exactly: for what is moved
// and not reduced.
Pattern MovedPattern(DType dtype, int rank);
// Normally distributed, mean 0 and variance 1, rounded to `dtype`, a floating-point type.
Pattern NormalPattern(DType dtype, int rank);

// Element-wise over the ranks' patterns, which are of one length. Of averages the sums.
Pattern Reduced(const std::vector<Pattern>& by_rank, ReduceOp op);
// What gwAvg promises of sums that are exact in `dtype`: times the type's own 1 / ranks, that of
// float for 16 bits, rounded once. Whole numbers are divided, towards zero.
Pattern Averaged(const Pattern& sums, DType dtype, int ranks);

// Writes elements [first, first + view.elems) of the pattern.
void FillWith(const Pattern& pattern, int64_t first, View view);
// Elements of `view` that are other numbers than [first, first + view.elems) of the pattern; NaN
// always is.
int64_t CountDifferent(const Pattern& pattern, int64_t first, ConstView view);

// One element as a number; exact for all but 64-bit integers above 2^53, which no pattern has.
double ReadElement(ConstView view, int64_t i);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_PERF_PATTERN_H_
