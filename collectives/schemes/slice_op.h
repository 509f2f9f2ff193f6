// SliceOp: one slice of one operation as a non-blocking state machine, made by a scheme. It owns no
// thread: the engine asks what comes next and does it.
#ifndef GRADWIRE_COLLECTIVES_SCHEMES_SLICE_OP_H_
#define GRADWIRE_COLLECTIVES_SCHEMES_SLICE_OP_H_

#include <cstdint>

#include "base/status.h"
#include "collectives/drivers/slice_work.h"
#include "collectives/executor.h"
#include "collectives/schemes/slice_stats.h"

namespace gradwire {

struct SliceAction {
  enum class Kind : uint8_t {
    kCompute,  // call ComputeLocal until it says finished
    kRun,      // run `schedule` with the slice as its work
    kDone,
  };
  Kind kind = Kind::kDone;
  const PreparedSchedule* schedule = nullptr;
};

class SliceOp : public SliceWork {
 public:
  // At the start and whenever the last action has finished.
  virtual StatusOr<SliceAction> Next() = 0;
  // One quantum of a kCompute action; true when it is finished. Of a carrier method that takes a
  // tensor as a whole (top-k, low rank, intsgd) that is one of its passes over all of it: nothing
  // else of the communicator moves meanwhile.
  virtual StatusOr<bool> ComputeLocal() { return true; }
  const SliceStats& stats() const { return stats_; }

 protected:
  SliceStats stats_;
};

// Input handled between two polls: long enough to be efficient, short enough not to starve the
// wire.
inline constexpr int64_t kComputeQuantumBytes = 256 * 1024;

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_SCHEMES_SLICE_OP_H_
