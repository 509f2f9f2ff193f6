// ProbeSchedule: when rank 0 tries a codec beside the training, which, and on which tensor. While
// the warm-up lasts every step has a probe, later ones are seldom.
#ifndef GRADWIRE_RUNTIME_CONTROLLER_PROBE_SCHEDULE_H_
#define GRADWIRE_RUNTIME_CONTROLLER_PROBE_SCHEDULE_H_

#include <cstdint>
#include <limits>
#include <optional>

#include "runtime/state/tensor_state.h"

namespace gradwire {

enum class ProbePace : uint8_t { kEveryStep, kSeldom };

// One probe.
struct ProbeTicket {
  int rung = 0;       // to try
  int64_t round = 0;  // over all rungs, on one tensor; the next is another tensor's
  int64_t begin_ns = 0;
};

class ProbeSchedule {
 public:
  void BeginStep(uint16_t turn);
  // A tensor of spec `auto` is submitted. The probe that is due on it; until Take it remains due.
  std::optional<ProbeTicket> Offer(const TensorState& tensor, ProbePace pace, int64_t now_ns);
  // What was offered is tried: no more in this step.
  void Take();
  // It has ended. What it took tells when the next may come.
  void Done(const ProbeTicket& ticket, int64_t now_ns);
  // The tensors are others, or have other ladders: rungs begin anew.
  void BeginAnew() { count_ = 0; }

  int64_t count() const { return count_; }  // of those taken, since then

 private:
  std::optional<int> RungFor(const TensorState& tensor) const;
  bool IsTime(ProbePace pace, int64_t now_ns) const;

  uint16_t turn_ = 0, last_turn_ = 0;  // of the step, and of the one that had a probe last
  int64_t count_ = 0, next_ns_ = 0;
  // Of what can be probed, in this step and the one before: how many were submitted, and how large
  // the largest was. Before the first step nobody knows.
  int64_t submits_ = 0, submits_before_ = 0;
  int64_t largest_ = 0, largest_before_ = std::numeric_limits<int64_t>::max();
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CONTROLLER_PROBE_SCHEDULE_H_
