// Observation: what one rank has measured of one committed step, and what all of them make
// together.
#ifndef GRADWIRE_RUNTIME_CONTROLLER_OBSERVATION_H_
#define GRADWIRE_RUNTIME_CONTROLLER_OBSERVATION_H_

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace gradwire {

// What stands for an energy that fits no float, or is no number: nothing can be told from it.
inline constexpr float kMostEnergy = std::numeric_limits<float>::max();
float EnergyOf(double energy);

// Of one tensor of spec `auto`, in the step.
struct TensorObservation {
  uint64_t tensor = 0;
  float ready_us = 0;    // submitted, since the step began
  float codec_us = 0;    // encoding and decoding
  float energy = 0;      // sum of squares of what was encoded
  float error = 0;       // and of what that lost
  float sum_energy = 0;  // of energy, that of sums, which their owners encoded
  friend bool operator==(const TensorObservation&, const TensorObservation&) = default;
};

struct StepObservation {
  uint64_t step = 0;
  uint16_t turn = 0;
  float step_us = 0;                       // from its begin to the next one's, but for pauses
  float blocked_us = 0;                    // of it, the caller waited inside the library
  float busy_us = 0;                       // of it, an operation was under way
  std::vector<TensorObservation> tensors;  // in order; empty in most steps
  friend bool operator==(const StepObservation&, const StepObservation&) = default;
};

// How many tensors fit a control message beside a table.
inline constexpr int kMaxObservedTensors = 1024;

std::string EncodeObservation(const StepObservation& observation);
// Any bytes; gwDataCorrupt.
StatusOr<StepObservation> DecodeObservation(std::string_view bytes);

// Of all ranks. Step and compute time are those of the slowest rank. An operation is under way the
// shortest where the last rank submits: nobody waits for it there. But the network is at work for
// at least as long as the rank that computes longest waits, for the vote too: what a rank has sent
// may still lie in front of its vote when its own operations are done.
struct StepInput {
  uint64_t step = 0;
  uint16_t turn = 0;
  double step_us = 0, compute_us = 0, busy_us = 0;
  std::vector<TensorObservation> tensors;  // latest ready, longest codec, sums over ranks
};

// gwMismatch where they are not of one step, or of other tensors.
StatusOr<StepInput> Combine(std::span<const StepObservation> ranks);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CONTROLLER_OBSERVATION_H_
