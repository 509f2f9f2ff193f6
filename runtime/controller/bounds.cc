#include "runtime/controller/bounds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace gradwire {
namespace {

// Of the sum that an owner encodes, that of the gradients is as much at least.
constexpr double kLeastPart = 0.1;

// An owner of a part encodes its sum: so much of a rank's gradient it sends to others.
double PartOfOthers(int ranks) { return (ranks - 1.0) / ranks; }

// Of what is encoded, over the gradients, once what goes in equals what is lost.
double Settled(double relative_error) {
  return relative_error < 1 ? relative_error / (1 - relative_error) : INFINITY;
}

// The sum of all errors, which have nothing in common, over the energy of the sum.
double SumError(ErrorSum errors, double relative_error, const Ranks& ranks) {
  switch (errors) {
    case ErrorSum::kOwned: return relative_error * (PartOfOthers(ranks.count) / ranks.alike + 1);
    case ErrorSum::kOwn: return relative_error / ranks.alike;
    case ErrorSum::kCommon: return relative_error;
  }
  return relative_error;
}

// An owner keeps back what the sum loses.
double Lag(ErrorSum errors, double relative_error, const Ranks& ranks) {
  const double encoded = errors == ErrorSum::kOwned ? PartOfOthers(ranks.count) + ranks.alike : 1;
  return encoded * Settled(relative_error);
}

}  // namespace

ErrorSum ErrorSumOf(const Codec& codec) {
  if (codec.carrier == nullptr) return ErrorSum::kOwned;
  // Integers are rounded by each rank; of numbers as they are some are left out, by all the same.
  static constexpr std::array<int64_t, 2> kAnyShape = {kBlockElems, kBlockElems};
  const TensorMeta any = {.shape = kAnyShape, .elems = kBlockElems * kBlockElems};
  const CarrierMethod& method = *codec.carrier;
  const DType summed = method.Round(method.rounds() - 1, any, 1, {}, {}).dtype;
  return IsFloat(summed) ? ErrorSum::kCommon : ErrorSum::kOwn;
}

double Distance(const Candidate& candidate, double relative_error, const Ranks& ranks) {
  return std::sqrt(candidate.feedback ? Lag(candidate.errors, relative_error, ranks)
                                      : SumError(candidate.errors, relative_error, ranks));
}

Loss LossOf(const Candidate& candidate, const TensorObservation& seen, int world_size) {
  const double energy = seen.energy, error = seen.error;
  if (energy <= 0 || energy >= kMostEnergy) return {};
  const double own = energy - seen.sum_energy;
  // Owners encode sums of what was decoded: errors that are zero on average come on top.
  const double added = candidate.feedback ? 0 : own * error / energy;
  const double sum = std::max(seen.sum_energy - added, kLeastPart * seen.sum_energy);
  Loss loss = {.relative_error = error / (own + sum)};
  const double others = PartOfOthers(world_size);
  const double alike = sum / own * others;
  // An owner may have the part where it has most itself: n times as much is the most there is. What
  // others send has what they kept back last and lacks what they keep back now, which have little
  // in common: with feedback both come on top.
  const double kept = candidate.feedback ? 2 * others * Settled(loss.relative_error) : 0;
  if (sum > 0 && std::isfinite(alike)) loss.alike = std::min(alike, world_size + kept);
  return loss;
}

}  // namespace gradwire
