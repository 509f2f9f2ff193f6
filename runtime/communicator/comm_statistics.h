// What gwCommGetStats and gwCommGetLedger tell of a communicator.
#ifndef GRADWIRE_RUNTIME_COMMUNICATOR_COMM_STATISTICS_H_
#define GRADWIRE_RUNTIME_COMMUNICATOR_COMM_STATISTICS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/drivers/event_driver.h"
#include "runtime/communicator/step_clock.h"
#include "runtime/engine/operation.h"
#include "runtime/operations/schedule_cache.h"
#include "runtime/state/tensor_state.h"
#include "transports/control/message.h"

namespace gradwire {

// What others count or know.
struct CommFacts {
  int rank = 0;
  int world_size = 1;
  std::string transport;
  int64_t slice_elems = 0;
  int window = 0;  // full slices in flight at most, now
  DriverCounters driver;
  int64_t control_bytes = 0;
};

// Where a communicator's ranks are.
enum class Hosts { kOne, kSeveral };

// Sums over the life of a communicator. A value; threads: one at a time.
class CommStatistics {
 public:
  explicit CommStatistics(Hosts hosts) : hosts_(hosts) {}

  void NoteDone(const Operation& operation);
  void NoteOutcome(StepOutcome outcome);

  // `schedules` tells how often a contribution is encoded.
  std::string Json(const CommFacts& facts, ScheduleCache* schedules) const;

 private:
  Hosts hosts_;
  int64_t operations_ = 0, raw_bytes_ = 0, payload_bytes_ = 0;
  int64_t encode_ns_ = 0, decode_ns_ = 0, op_ns_ = 0;
  int64_t commits_ = 0, skips_ = 0, aborts_ = 0;
  double sum_p2_ = 0, sum_err2_ = 0;
  // Of those that are complete the one that was submitted last: in a window the order in which they
  // end is a matter of chance.
  Operation::Course last_;
  int64_t last_submit_ns_ = 0;
};

// What the ledger tells of the communicator.
struct LedgerFacts {
  int rank = 0, world_size = 1;
  bool transaction = true;
};

// `steps`: how long they take, in medians of the last 1,024 that have ended; null before the first
// has. `controller`: its own JSON. A tensor's `note` says why it has not, or not quite, what its
// spec asks for; `keeps_state`, whether an operation depends on those before it; `residual_bytes`,
// the memory of its residual from the first step on that needs one; `method_bytes`, that of what
// its codec keeps besides (averages, bases) from then on; `held_bytes`, that of everything it keeps
// now.
std::string LedgerJson(const LedgerFacts& facts, const StepClock& steps,
                       const std::vector<TensorState*>& tensors, const std::string& controller);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_COMMUNICATOR_COMM_STATISTICS_H_
