// RawSlice: an exact collective on the caller's own memory; nothing is copied that the schedule
// does not copy.
#ifndef GRADWIRE_COLLECTIVES_SCHEMES_RAW_RAW_SLICE_H_
#define GRADWIRE_COLLECTIVES_SCHEMES_RAW_RAW_SLICE_H_

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/view.h"
#include "base/workspace.h"
#include "collectives/schedule.h"
#include "collectives/schemes/slice_op.h"

namespace gradwire {

// A whole exact collective. `count` follows NCCL: all-reduce, reduce, broadcast: elements of the
// array; all-gather and all-to-all: elements each rank gives (to each rank); reduce-scatter:
// elements each rank receives; barrier: 0.
struct RawOp {
  Collective collective = Collective::kAllReduce;
  const std::byte* send = nullptr;  // may be recv (in place as NCCL defines it for the collective)
  std::byte* recv = nullptr;
  int64_t count = 0;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int rank = 0, world_size = 1, root = 0;
  bool count_nonfinite = false;  // look at the result for the non-finite policy
};

// Elements of `count` that one slice may take: `slice_elems`, and no more than keeps its input and
// its output at every rank within slice_elems * kMaxElementBytes.
inline constexpr int64_t kMaxElementBytes = 8;
int64_t RawSliceElems(const RawOp& op, int64_t slice_elems);

class RawSlice final : public SliceOp {
 public:
  // The slice [first, first + elems) of op.count. `schedule` is for op.collective and outlives the
  // slice.
  RawSlice(const RawOp& op, int64_t first, int64_t elems, const PreparedSchedule* schedule);

  StatusOr<SliceAction> Next() override;
  StatusOr<bool> ComputeLocal() override;
  Bytes Memory(const Region& region) override;
  int64_t MessageBytes(const Region& region) const override;
  void Combine(const Step& step, int64_t offset, ConstBytes fragment) override;
  StatusOr<bool> Compute(const Step& step, int64_t* cursor) override;

 private:
  enum class State : uint8_t { kStart, kRunning, kFinishing };
  int64_t ShardBytes(int32_t logical) const {
    return partition_.elems(logical) * SizeOf(op_.dtype);
  }
  std::byte* CallerMemory(BufferRole role, int32_t logical);
  void LayOutScratch();
  bool NeedsFinish() const;

  const RawOp op_;
  const int64_t first_, elems_;
  const PreparedSchedule* const schedule_;
  Partition partition_;
  std::vector<std::vector<int64_t>>
      scratch_offset_;  // per buffer: borders of shards; empty unless scratch
  AlignedBuffer scratch_;
  Status memory_;  // whether it was to be had
  State state_ = State::kStart;
  int64_t finished_elems_ = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_SCHEMES_RAW_RAW_SLICE_H_
