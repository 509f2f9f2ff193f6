#include "collectives/schemes/raw/raw_slice.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "base/numeric.h"
#include "collectives/reduce/reduce.h"

namespace gradwire {
namespace {

// Shard borders on cache lines, so that fragments and vectors are aligned alike.
constexpr int64_t kShardAlign = 64;

}  // namespace

int64_t RawSliceElems(const RawOp& op, int64_t slice_elems) {
  const int64_t widest = GivesToAll(op.collective) ? op.world_size : 1;
  const int64_t elems =
      std::min(slice_elems, slice_elems * kMaxElementBytes / (widest * SizeOf(op.dtype)));
  const int64_t align = kShardAlign / SizeOf(op.dtype);
  return std::max(elems / align * align, align);
}

RawSlice::RawSlice(const RawOp& op, int64_t first, int64_t elems, const PreparedSchedule* schedule)
    : op_(op), first_(first), elems_(elems), schedule_(schedule) {
  const int32_t shards = schedule->schedule.logical_shards;
  if (GivesToAll(op.collective)) {
    partition_.begin.resize(shards + 1);
    for (int32_t l = 0; l <= shards; ++l) partition_.begin[l] = l * elems;
  } else {
    partition_ = EvenPartition(elems, shards, kShardAlign / SizeOf(op.dtype));
  }
  LayOutScratch();
}

void RawSlice::LayOutScratch() {
  const std::vector<BufferDecl>& buffers = schedule_->schedule.buffers;
  int64_t bytes = 0;
  for (size_t b = 0; b < buffers.size(); ++b) {
    if (buffers[b].role != BufferRole::kScratch) continue;
    // Most small operations need none, and no memory to tell where it is.
    scratch_offset_.resize(buffers.size());
    for (int32_t logical : buffers[b].shard_ids) {
      scratch_offset_[b].push_back(bytes);
      bytes += ShardBytes(logical);
    }
    scratch_offset_[b].push_back(bytes);
  }
  if (bytes > 0) memory_ = scratch_.EnsureBytes(bytes);
}

StatusOr<SliceAction> RawSlice::Next() {
  switch (state_) {
    case State::kStart:
      GW_RETURN_IF_ERROR(std::move(memory_));
      state_ = State::kRunning;
      return SliceAction{SliceAction::Kind::kRun, schedule_};
    case State::kRunning:
      state_ = State::kFinishing;
      if (NeedsFinish()) return SliceAction{SliceAction::Kind::kCompute};
      return SliceAction{};
    case State::kFinishing: return SliceAction{};
  }
  return SliceAction{};
}

bool RawSlice::NeedsFinish() const {
  if (!Reduces(op_.collective) || (op_.collective == Collective::kReduce && op_.rank != op_.root))
    return false;
  return op_.op == ReduceOp::kAvg || (op_.count_nonfinite && IsFloat(op_.dtype));
}

StatusOr<bool> RawSlice::ComputeLocal() {
  const int64_t elems =
      std::min(elems_ - finished_elems_, kComputeQuantumBytes / SizeOf(op_.dtype));
  const View part = {op_.recv + (first_ + finished_elems_) * SizeOf(op_.dtype), elems, op_.dtype};
  if (op_.op == ReduceOp::kAvg) ScaleAvg(op_.dtype, part, op_.world_size);
  if (op_.count_nonfinite) stats_.nonfinite += CountNonFinite(part);
  finished_elems_ += elems;
  return finished_elems_ == elems_;
}

std::byte* RawSlice::CallerMemory(BufferRole role, int32_t logical) {
  const int64_t size = SizeOf(op_.dtype);
  const bool input = role == BufferRole::kInput;
  // The schedule never writes its input unless it is the output too.
  std::byte* base = input ? const_cast<std::byte*>(op_.send) : op_.recv;
  const bool wide = op_.collective == Collective::kAllToAll ||
                    op_.collective == (input ? Collective::kReduceScatter : Collective::kAllGather);
  if (wide) return base + (logical * op_.count + first_) * size;
  if (GivesToAll(op_.collective)) return base + first_ * size;
  return base + (first_ + partition_.begin[logical]) * size;
}

Bytes RawSlice::Memory(const Region& region) {
  if (region.count == 0) return {};
  const BufferDecl& buffer = schedule_->schedule.buffers[region.buffer];
  const int64_t bytes = MessageBytes(region);
  if (buffer.role == BufferRole::kScratch)
    return {scratch_.data() + scratch_offset_[region.buffer][region.first], bytes};
  return {CallerMemory(buffer.role, buffer.shard_ids[region.first]), bytes};
}

// The shards of a region lie in a row, and those of the caller's arrays are neighbours in them. So
// borders tell the size: drivers ask several times a fragment.
int64_t RawSlice::MessageBytes(const Region& region) const {
  if (region.count == 0) return 0;
  const BufferDecl& buffer = schedule_->schedule.buffers[region.buffer];
  if (buffer.role == BufferRole::kScratch) {
    const std::vector<int64_t>& offsets = scratch_offset_[region.buffer];
    return offsets[region.first + region.count] - offsets[region.first];
  }
  const int32_t first = buffer.shard_ids[region.first];
  assert(buffer.shard_ids[region.first + region.count - 1] == first + region.count - 1);
  return (partition_.begin[first + region.count] - partition_.begin[first]) * SizeOf(op_.dtype);
}

void RawSlice::Combine(const Step& step, int64_t offset, ConstBytes fragment) {
  ReduceInto(op_.dtype, op_.op, Memory(step.arg).Sub(offset, fragment.size), fragment,
             Memory(step.dst).Sub(offset, fragment.size));
}

StatusOr<bool> RawSlice::Compute(const Step& step, int64_t* cursor) {
  const Bytes dst = Memory(step.dst);
  const Bytes src = Memory(step.src);
  const int64_t bytes = std::min(dst.size - *cursor, kComputeQuantumBytes);
  if (bytes > 0) {
    const Bytes out = dst.Sub(*cursor, bytes);
    if (step.kind == StepKind::kReduce) {
      ReduceInto(op_.dtype, op_.op, Memory(step.arg).Sub(*cursor, bytes), src.Sub(*cursor, bytes),
                 out);
    } else if (out.data != src.data + *cursor) {
      std::memcpy(out.data, src.data + *cursor, bytes);
    }
  }
  *cursor += bytes;
  return *cursor == dst.size;
}

}  // namespace gradwire
