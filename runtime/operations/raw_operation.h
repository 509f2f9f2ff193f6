// RawOperation: an exact collective on plain buffers.
#ifndef GRADWIRE_RUNTIME_OPERATIONS_RAW_OPERATION_H_
#define GRADWIRE_RUNTIME_OPERATIONS_RAW_OPERATION_H_

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "collectives/executor.h"
#include "collectives/schedule.h"
#include "collectives/schemes/raw/raw_slice.h"
#include "collectives/schemes/slice_op.h"
#include "runtime/engine/operation.h"

namespace gradwire {

// `algorithm` and its `schedule` outlive the operation.
class RawOperation final : public Operation {
 public:
  RawOperation(const RawOp& op, int64_t slice_elems, const AlgorithmRow* algorithm,
               const PreparedSchedule* schedule);

  OpText Text() const override;
  uint64_t Signature() const override;

  int64_t slices() const override { return slices_; }
  SliceTraits Traits() const override;
  StatusOr<std::unique_ptr<SliceOp>> MakeSlice(int64_t index) override;

 private:
  const RawOp op_;
  const int64_t per_slice_;
  // A collective of no elements still runs once: it orders the ranks, and all of them check its
  // signature.
  const int64_t slices_;
  const PreparedSchedule* const schedule_;
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_OPERATIONS_RAW_OPERATION_H_
