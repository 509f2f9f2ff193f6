// SliceOp: one slice of one operation as a non-blocking state machine, made by a scheme. It owns no
// thread: the engine asks what comes next and does it.
#ifndef GRADWIRE_COLLECTIVES_SCHEMES_SLICE_OP_H_
#define GRADWIRE_COLLECTIVES_SCHEMES_SLICE_OP_H_

#include <cstdint>

#include "base/status.h"
#include "collectives/drivers/slice_work.h"
#include "collectives/executor.h"

namespace gradwire {

// What happened to a slice, summed up for the ledger.
struct SliceStats {
  int64_t encode_ns = 0, decode_ns = 0;
  int64_t payload_bytes = 0;  // encoded bytes this rank made
  double sum_p2 = 0;          // energy of what was encoded
  double sum_err2 = 0;        // and of what encoding lost
  double owned_p2 = 0;        // of sum_p2, that of sums that this rank encoded as their owner
  uint64_t nonfinite = 0;     // NaN and infinite elements met

  void Add(const SliceStats& other) {
    encode_ns += other.encode_ns, decode_ns += other.decode_ns,
        payload_bytes += other.payload_bytes;
    sum_p2 += other.sum_p2, sum_err2 += other.sum_err2, owned_p2 += other.owned_p2,
        nonfinite += other.nonfinite;
  }
};

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
inline constexpr int64_t kQuantumBytes = 256 * 1024;

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_SCHEMES_SLICE_OP_H_
