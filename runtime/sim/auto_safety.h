// Spec `auto` beside `none` in the same random training in virtual time: is it ever slower?
#ifndef GRADWIRE_RUNTIME_SIM_AUTO_SAFETY_H_
#define GRADWIRE_RUNTIME_SIM_AUTO_SAFETY_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/sim/sim_training.h"

namespace gradwire {

// A function of `seed`: 2 to 4 ranks, links of 100 Mbit/s to 100 Gbit/s, latencies of 5 to 500 us,
// four tensors, computing for a tenth to five times as long as the bytes take, with noise.
SimWorld DrawAutoWorld(uint64_t seed);

struct SafetyRow {
  SimWorld world;
  double least_speed = 0;  // in parts of that of none, of all 500 steps after the warm-up
  size_t least_from = 0;   // the step with which these begin
  std::string decisions;

  // One line: the world and the least speed.
  std::string Text() const;
};

// Such a world with drift and slower spells besides, in which codecs take time from the computing.
// `auto` trains in it for so many steps. Each plan that it follows counts with its time in the same
// world without noise: two trainings under one plan differ by more than what is looked for.
SafetyRow AskSafety(uint64_t seed, int steps);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_SIM_AUTO_SAFETY_H_
