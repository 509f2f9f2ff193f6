// ReferenceWork: the plainest SliceWork, for tests: arrays in host memory, the reduction kernels,
// and a codec without loss whose payloads are longer than what they hold.
#ifndef GRADWIRE_COLLECTIVES_VERIFY_REFERENCE_WORK_H_
#define GRADWIRE_COLLECTIVES_VERIFY_REFERENCE_WORK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "base/view.h"
#include "base/workspace.h"
#include "collectives/drivers/slice_work.h"
#include "collectives/schedule.h"

namespace gradwire {

struct ReferenceOp {
  Partition partition;  // of the whole array: input and output are that long at every rank
  DType dtype = DType::kInt64;
  ReduceOp op = ReduceOp::kSum;
  bool in_place = false;
};

class ReferenceWork final : public SliceWork {
 public:
  // `schedule` outlives the work. Both arrays are filled with 0xEE, scratch and payloads too.
  ReferenceWork(const Schedule* schedule, const ReferenceOp& op);

  // Whole arrays; logical shard l is at [begin[l], begin[l + 1]). The same memory when in place.
  // Which parts mean something depends on the collective: a rank of an all-gather fills its shard.
  View input();
  View output();

  Bytes Memory(const Region& region) override;
  int64_t MessageBytes(const Region& region) const override;
  void Combine(const Step& step, int64_t offset, ConstBytes fragment) override;
  StatusOr<bool> Compute(const Step& step, int64_t* cursor) override;

 private:
  int64_t ShardBytes(const BufferDecl& decl, int32_t shard) const;
  StatusOr<bool> ComputeRaw(const Step& step, int64_t* cursor);
  StatusOr<bool> ComputeShard(const Step& step, int64_t* cursor);

  const Schedule* const schedule_;
  const ReferenceOp op_;
  AlignedBuffer input_, output_;
  std::vector<AlignedBuffer> own_;  // per buffer; empty for the caller's
};

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_VERIFY_REFERENCE_WORK_H_
