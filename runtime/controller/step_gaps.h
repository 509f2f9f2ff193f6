// StepGaps: what the caller does between the end of a step and the begin of the next. An evaluation
// or a checkpoint there is no part of training, and would make of that step no measurement at all.
#ifndef GRADWIRE_RUNTIME_CONTROLLER_STEP_GAPS_H_
#define GRADWIRE_RUNTIME_CONTROLLER_STEP_GAPS_H_

#include <array>
#include <cstdint>

namespace gradwire {

class StepGaps {
 public:
  // What of `gap_ns` belongs to the step before it, which took `inside_ns` from its begin to its
  // end: all, but of a pause what gaps usually take. One that lasts is usual after kKept / 2 steps.
  int64_t OfStep(int64_t gap_ns, int64_t inside_ns);

  static constexpr int kKept = 25;

 private:
  std::array<int64_t, kKept> gaps_ns_ = {};  // a ring
  int64_t gaps_ = 0;                         // so far
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CONTROLLER_STEP_GAPS_H_
