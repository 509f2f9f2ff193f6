#include "runtime/operations/raw_operation.h"

#include <algorithm>
#include <string>

#include "base/dtype.h"
#include "base/hash.h"

namespace gradwire {

RawOperation::RawOperation(const RawOp& op, int64_t slice_elems, const AlgorithmRow* algorithm,
                           const PreparedSchedule* schedule)
    : op_(op),
      per_slice_(RawSliceElems(op, slice_elems)),
      slices_(std::max<int64_t>((op.count + per_slice_ - 1) / per_slice_, 1)),
      schedule_(schedule) {
  course = {.algorithm = algorithm, .root = op.root};
  bytes = op.count * SizeOf(op.dtype);
  dtype = op.dtype;
}

OpText RawOperation::Text() const {
  return {{"operation", std::string(Name(op_.collective))},
          {"count", std::to_string(op_.count)},
          {"datatype", std::string(Name(op_.dtype))},
          {"op", std::string(Name(op_.op))},
          {"root", std::to_string(op_.root)},
          {"algorithm", course.algorithm->name}};
}

// The same fields as numbers: small operations are made of little else.
uint64_t RawOperation::Signature() const {
  return Hasher()
      .Add(op_.collective)
      .Add(op_.count)
      .Add(op_.dtype)
      .Add(op_.op)
      .Add(op_.root)
      .Add(schedule_->schedule.hash)
      .digest();
}

SliceTraits RawOperation::Traits() const {
  return {.fill = FillOf(op_.count, per_slice_),
          .kind = Hasher().Add(course.algorithm->name).Add(op_.dtype).digest()};
}

StatusOr<std::unique_ptr<SliceOp>> RawOperation::MakeSlice(int64_t index) {
  const int64_t first = index * per_slice_;
  const int64_t elems = std::min(per_slice_, op_.count - first);
  return std::unique_ptr<SliceOp>(std::make_unique<RawSlice>(op_, first, elems, schedule_));
}

}  // namespace gradwire
