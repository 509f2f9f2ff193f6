// A training job with the engine that runs everywhere, over the simulated network in virtual time:
// there it is known what every plan takes, and what spec `auto` costs can be told exactly.
#ifndef GRADWIRE_RUNTIME_SIM_SIM_TRAINING_H_
#define GRADWIRE_RUNTIME_SIM_SIM_TRAINING_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "runtime/controller/model.h"

namespace gradwire {

struct SimWorld {
  uint64_t seed = 1;
  int world_size = 2;
  double gbit_per_s = 1;
  int64_t latency_ns = 20 * kNsPerUs;
  double codec_ns_per_elem = 1;
  int64_t compute_ns = 0;
  int64_t slice_elems = 32 * 1024;
  int window = 0;                            // the setting
  std::vector<int64_t> elems;                // of the tensors, in order of submission
  std::vector<int> rungs = {0, 1, 2, 3, 4};  // of the ladder of `auto`, those there are
  int steps = 560;

  // Standard deviation of the logarithm of what a step's computing takes, and of what its messages
  // take, the same on all ranks and whatever the plan.
  double compute_noise = 0, wire_noise = 0;
  // Both, and the codecs, are slower by up to this part and back again, slowly.
  double drift = 0;
  // And by this part for some dozens of steps now and then.
  double flip = 0;
  // Of the time of codecs: so much longer takes the computing beside them, on the same processors.
  double shared_cores = 0;
  // From a step on the last rank computes for so much longer.
  size_t late_from_step = 0;
  int64_t late_ns = 0;
};

struct SimTrained {
  std::vector<int64_t> step_ns;     // from begin to begin, at rank 0
  std::vector<Plan> plans;          // of those steps: the rung of each tensor, counted in `rungs`
  std::vector<std::string> codecs;  // at the end
  std::string decisions;            // the controller's JSON
  std::vector<std::string> states;  // by rank, at the end

  double Ns(size_t begin, size_t end) const;
};

// Trains with spec `auto`, from the states that another training has left; with none from cold.
SimTrained TrainAuto(const SimWorld& world, const std::vector<std::string>& states = {});
// Trains with a plan for each step; world.steps is not looked at.
SimTrained TrainOn(const SimWorld& world, const std::vector<Plan>& plans);
// With all tensors on one rung, as far as they can.
SimTrained TrainOn(const SimWorld& world, int rung);

// What a step takes under each plan when nothing disturbs it: the mean of `rounds`, for ranks are
// served in an order drawn anew all the time. plans: at least one, none of them twice.
std::map<Plan, double> CalmNs(const SimWorld& world, const std::vector<Plan>& plans, int rounds);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_SIM_SIM_TRAINING_H_
