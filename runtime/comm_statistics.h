// What gwCommGetStats and gwCommGetLedger tell of a communicator.
#ifndef GRADWIRE_RUNTIME_COMM_STATISTICS_H_
#define GRADWIRE_RUNTIME_COMM_STATISTICS_H_

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/drivers/event_driver.h"
#include "runtime/operation.h"
#include "runtime/schedule_cache.h"
#include "runtime/tensor_state.h"
#include "transports/control/message.h"

namespace gradwire {

// What others count or know.
struct CommFacts {
  int rank = 0;
  int world_size = 1;
  std::string transport;
  int64_t slice_elems = 0;
  DriverCounters driver;
  int64_t control_bytes = 0;
};

// Sums over the life of a communicator. Threads: any; Json: the caller's, for the schedules.
class CommStatistics {
 public:
  // `algorithm` is a row of the registry. `is_filled`: a codec fills what the schedule moves.
  void NoteSubmit(const AlgorithmRow& algorithm, int root, int64_t raw_bytes, bool is_filled);
  void NoteDone(const Operation& operation);
  void NoteOutcome(StepOutcome outcome);

  // `schedules` tells how often a contribution is encoded.
  std::string Json(const CommFacts& facts, ScheduleCache* schedules) const;

 private:
  mutable std::mutex mu_;
  // All guarded by mu_.
  int64_t operations_ = 0, raw_bytes_ = 0, payload_bytes_ = 0;
  int64_t encode_ns_ = 0, decode_ns_ = 0, op_ns_ = 0;
  int64_t commits_ = 0, skips_ = 0, aborts_ = 0;
  double sum_p2_ = 0, sum_err2_ = 0;
  const AlgorithmRow* last_algorithm_ = nullptr;
  int last_root_ = 0;
  bool last_is_filled_ = false;
};

// `controller`: its own JSON. A tensor's `note` says why it has not, or not quite, what its spec
// asks for; `keeps_state`, whether an operation depends on those before it.
std::string LedgerJson(int rank, int world_size, const std::vector<TensorState*>& tensors,
                       const std::string& controller);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_COMM_STATISTICS_H_
