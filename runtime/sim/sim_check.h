// One seed of the engine's simulation, from the draw to the verdict.
#ifndef GRADWIRE_RUNTIME_SIM_SIM_CHECK_H_
#define GRADWIRE_RUNTIME_SIM_SIM_CHECK_H_

#include <cstdint>
#include <string>

namespace gradwire {

struct SimVerdict {
  bool hung = false;      // with or without trouble
  std::string complaint;  // empty: all is well
};

// Draws the job of `seed`, runs it in virtual time with and without its trouble, and compares: all
// ranks agree, nothing hangs, what was committed is what a job without trouble commits, and what
// went in came out or was kept. Takes about a millisecond.
SimVerdict CheckSimSeed(uint64_t seed);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_SIM_SIM_CHECK_H_
