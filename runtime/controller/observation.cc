#include "runtime/controller/observation.h"

#include <algorithm>
#include <cmath>

#include "base/byte_stream.h"

namespace gradwire {
namespace {

bool IsAmount(float value) { return std::isfinite(value) && value >= 0; }

bool IsSane(const StepObservation& o) {
  if (!IsAmount(o.step_us) || !IsAmount(o.blocked_us) || !IsAmount(o.busy_us)) return false;
  return std::all_of(o.tensors.begin(), o.tensors.end(), [](const TensorObservation& t) {
    return IsAmount(t.ready_us) && IsAmount(t.codec_us) && IsAmount(t.energy) &&
           IsAmount(t.error) && IsAmount(t.sum_energy);
  });
}

}  // namespace

float EnergyOf(double energy) {
  return energy < kMostEnergy ? static_cast<float>(energy) : kMostEnergy;
}

std::string EncodeObservation(const StepObservation& o) {
  ByteWriter out;
  out.Put(o.step, o.turn, o.step_us, o.blocked_us, o.busy_us);
  for (const TensorObservation& t : o.tensors)
    out.Put(t.tensor, t.ready_us, t.codec_us, t.energy, t.error, t.sum_energy);
  return std::move(out).Take();
}

StatusOr<StepObservation> DecodeObservation(std::string_view bytes) {
  const Status corrupt(gwDataCorrupt, "a rank's observations cannot be read");
  ByteReader in(bytes);
  StepObservation o;
  in.Get(&o.step, &o.turn, &o.step_us, &o.blocked_us, &o.busy_us);
  while (in.ok() && !in.at_end()) {
    TensorObservation t;
    in.Get(&t.tensor, &t.ready_us, &t.codec_us, &t.energy, &t.error, &t.sum_energy);
    o.tensors.push_back(t);
  }
  if (!in.ok() || !IsSane(o)) return corrupt;
  return o;
}

StatusOr<StepInput> Combine(std::span<const StepObservation> ranks) {
  const Status differ(gwMismatch, "the ranks observed different steps");
  if (ranks.empty()) return differ;
  const StepObservation& first = ranks[0];
  StepInput all = {.step = first.step, .turn = first.turn, .busy_us = first.busy_us};
  double exposed_us = 0;  // of the rank that computes longest; of several such the least
  for (const TensorObservation& t : first.tensors) all.tensors.push_back({.tensor = t.tensor});
  for (const StepObservation& rank : ranks) {
    if (rank.step != first.step || rank.turn != first.turn ||
        rank.tensors.size() != first.tensors.size()) {
      return differ;
    }
    all.step_us = std::max<double>(all.step_us, rank.step_us);
    const double compute_us = std::max(0.0, double{rank.step_us} - rank.blocked_us);
    if (compute_us > all.compute_us || &rank == &first) {
      all.compute_us = compute_us;
      exposed_us = rank.blocked_us;
    } else if (compute_us == all.compute_us) {
      exposed_us = std::min<double>(exposed_us, rank.blocked_us);
    }
    all.busy_us = std::min<double>(all.busy_us, rank.busy_us);
    for (size_t i = 0; i < rank.tensors.size(); ++i) {
      const TensorObservation& from = rank.tensors[i];
      TensorObservation& to = all.tensors[i];
      if (from.tensor != to.tensor) return differ;
      to.ready_us = std::max(to.ready_us, from.ready_us);
      to.codec_us = std::max(to.codec_us, from.codec_us);
      to.energy = EnergyOf(double{to.energy} + from.energy);
      to.error = EnergyOf(double{to.error} + from.error);
      to.sum_energy = EnergyOf(double{to.sum_energy} + from.sum_energy);
    }
  }
  all.busy_us = std::max(all.busy_us, exposed_us);
  return all;
}

}  // namespace gradwire
