// The oracle: a random training in virtual time, in which every plan has been tried, against spec
// `auto`, which knows nothing. The truth is the engine over the simulated network, not the
// controller's model.
#ifndef GRADWIRE_RUNTIME_SIM_AUTO_ORACLE_H_
#define GRADWIRE_RUNTIME_SIM_AUTO_ORACLE_H_

#include <cstdint>
#include <string>

#include "runtime/sim/sim_training.h"

namespace gradwire {

// Regrets are parts of the time of what is compared with: 0.05 is 5 % longer. They are of the plans
// that were followed, each with its time in the same world without noise.
struct OracleRow {
  SimWorld world;
  double none_ns = 0, bf16_ns = 0, best_ns = 0;  // of a step
  Plan best;
  double last_regret = 0;   // against the best plan, in the last 100 steps
  double whole_regret = 0;  // likewise, in all steps, the warm-up included
  double none_regret = 0;   // against none, in all steps after the warm-up; negative: it is faster
  bool misses_baseline = false;  // none or bf16 is best by more than 2 %, and another plan runs
  std::string decisions;

  // One line: the world, the best plan and the regrets.
  std::string Text() const;
};

// The training is a function of `seed`: 2 to 8 ranks, links of 100 Mbit/s to 100 Gbit/s, latencies
// of 5 us to 5 ms, 4 or 5 tensors, none, bf16 and two more codecs, whose speed and what they take
// from the computing vary; `auto` runs 400 steps with noise, drift and slower spells.
OracleRow AskOracle(uint64_t seed);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_SIM_AUTO_ORACLE_H_
