// The input p of a codec by itself: its statistics, and p as floats for a codec that sends some
// elements and keeps the others.
#ifndef GRADWIRE_COMPRESS_KERNELS_INPUT_INPUT_KERNELS_H_
#define GRADWIRE_COMPRESS_KERNELS_INPUT_INPUT_KERNELS_H_

#include <algorithm>

#include "compress/kernels/kernel_job.h"

namespace gradwire {

// Adds sum_p2, absmax and nonfinite of p; an element is a block of its own. Writes p, a NaN as
// kNanBits, to e_out unless that is null.
using MeasureInput = void (*)(const InputJob& job);

// The reference.
void MeasureInputRef(const InputJob& job);
// Of one element.
void CountInputRef(float p, EncodeStats* stats);

// The kernel of the active SIMD target.
MeasureInput ActiveMeasureInput();

// What it adds for `job`, whose own `stats` are left alone.
inline EncodeStats StatsOfInput(InputJob job) {
  EncodeStats stats;
  job.stats = &stats;
  ActiveMeasureInput()(job);
  return stats;
}

// Of p where it was left as floats.
inline EncodeStats StatsOfFloats(const float* values, int64_t elems) {
  return StatsOfInput({.grad = reinterpret_cast<const std::byte*>(values), .elems = elems});
}

// Adds what all of an input has: sum_p2 where all of it is finite.
inline void AddCounted(const EncodeStats& counted, EncodeStats* stats) {
  if (counted.nonfinite == 0) stats->sum_p2 += counted.sum_p2;
  stats->absmax = std::max(stats->absmax, counted.absmax);
  stats->nonfinite += counted.nonfinite;
}

// For another pass over the input that counts by the way: adds to `stats` what it found, of which
// `nonfinite` says no more than whether there are any. If so they are counted, in e_out where the
// pass left p there: e_in may be the same array.
inline void AddScanned(const InputJob& input, const EncodeStats& scanned, EncodeStats* stats) {
  EncodeStats exact = scanned;
  if (scanned.nonfinite > 0) {
    exact = input.e_out == nullptr ? StatsOfInput(input) : StatsOfFloats(input.e_out, input.elems);
  }
  AddCounted(exact, stats);
}

// Sum of squares.
inline double EnergyOf(const float* values, int64_t elems) {
  return StatsOfFloats(values, elems).sum_p2;
}

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_KERNELS_INPUT_INPUT_KERNELS_H_
