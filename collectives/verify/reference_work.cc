#include "collectives/verify/reference_work.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "collectives/reduce/reduce.h"

namespace gradwire {
namespace {

// Small, so that steps take several quanta.
constexpr int64_t kQuantumElems = 48;

// A payload: the number of elements, then the elements with every bit flipped.
constexpr int64_t kHeaderBytes = 8;

void Encode(View values, Bytes out) {
  std::memcpy(out.data, &values.elems, kHeaderBytes);
  for (int64_t i = 0; i < values.bytes(); ++i) out.data[kHeaderBytes + i] = ~values.data[i];
}

Status Decode(ConstBytes payload, View out) {
  int64_t elems = 0;
  std::memcpy(&elems, payload.data, kHeaderBytes);
  if (elems != out.elems) return Status(gwDataCorrupt, "a payload of other elements");
  for (int64_t i = 0; i < out.bytes(); ++i) out.data[i] = ~payload.data[kHeaderBytes + i];
  return Status::Ok();
}

void Fill(int64_t bytes, AlignedBuffer* buffer) {
  const Status status = buffer->EnsureBytes(bytes);
  assert(status.ok());
  if (status.ok() && bytes > 0) std::memset(buffer->data(), 0xEE, bytes);
}

bool IsCaller(BufferRole role) { return role == BufferRole::kInput || role == BufferRole::kOutput; }

}  // namespace

ReferenceWork::ReferenceWork(const Schedule* schedule, const ReferenceOp& op)
    : schedule_(schedule), op_(op), own_(schedule->buffers.size()) {
  const int64_t bytes = op.partition.begin.back() * SizeOf(op.dtype);
  Fill(bytes, &output_);
  if (!op.in_place) Fill(bytes, &input_);
  for (size_t b = 0; b < own_.size(); ++b) {
    const BufferDecl& decl = schedule->buffers[b];
    if (IsCaller(decl.role)) continue;
    int64_t total = 0;
    for (int32_t shard : decl.shard_ids) total += ShardBytes(decl, shard);
    Fill(total, &own_[b]);
  }
}

View ReferenceWork::input() {
  AlignedBuffer& array = op_.in_place ? output_ : input_;
  return {array.data(), op_.partition.begin.back(), op_.dtype};
}

View ReferenceWork::output() { return {output_.data(), op_.partition.begin.back(), op_.dtype}; }

int64_t ReferenceWork::ShardBytes(const BufferDecl& decl, int32_t shard) const {
  const int64_t raw = op_.partition.elems(shard) * SizeOf(op_.dtype);
  return decl.role == BufferRole::kPayload ? raw + kHeaderBytes : raw;
}

int64_t ReferenceWork::MessageBytes(const Region& region) const {
  int64_t bytes = 0;
  for (int32_t i = 0; i < region.count; ++i) {
    const BufferDecl& decl = schedule_->buffers[region.buffer];
    bytes += ShardBytes(decl, decl.shard_ids[region.first + i]);
  }
  return bytes;
}

Bytes ReferenceWork::Memory(const Region& region) {
  if (region.count == 0) return {};
  const BufferDecl& decl = schedule_->buffers[region.buffer];
  if (!IsCaller(decl.role)) {
    const int64_t offset = MessageBytes({region.buffer, 0, region.first});
    return {own_[region.buffer].data() + offset, MessageBytes(region)};
  }
  const View array = decl.role == BufferRole::kInput ? input() : output();
  const int64_t first = op_.partition.begin[decl.shard_ids[region.first]];
  return {array.data + first * SizeOf(op_.dtype), MessageBytes(region)};
}

void ReferenceWork::Combine(const Step& step, int64_t offset, ConstBytes fragment) {
  ReduceInto(op_.dtype, op_.op, Memory(step.arg).Sub(offset, fragment.size), fragment,
             Memory(step.dst).Sub(offset, fragment.size));
}

StatusOr<bool> ReferenceWork::Compute(const Step& step, int64_t* cursor) {
  const bool raw = step.kind == StepKind::kCopy || step.kind == StepKind::kReduce;
  return raw ? ComputeRaw(step, cursor) : ComputeShard(step, cursor);
}

// The cursor counts bytes.
StatusOr<bool> ReferenceWork::ComputeRaw(const Step& step, int64_t* cursor) {
  const Bytes dst = Memory(step.dst);
  const int64_t bytes = std::min(dst.size - *cursor, kQuantumElems * SizeOf(op_.dtype));
  const ConstBytes src = Memory(step.src).Sub(*cursor, bytes);
  if (step.kind == StepKind::kReduce) {
    ReduceInto(op_.dtype, op_.op, Memory(step.arg).Sub(*cursor, bytes), src,
               dst.Sub(*cursor, bytes));
  } else if (bytes > 0) {
    std::memmove(dst.data + *cursor, src.data, bytes);
  }
  *cursor += bytes;
  return *cursor == dst.size;
}

// The cursor counts shards.
StatusOr<bool> ReferenceWork::ComputeShard(const Step& step, int64_t* cursor) {
  const auto i = static_cast<int32_t>(*cursor);
  const Bytes src = Memory({step.src.buffer, step.src.first + i, 1});
  const Bytes dst = Memory({step.dst.buffer, step.dst.first + i, 1});
  const Bytes& raw = step.kind == StepKind::kEncode ? src : dst;
  const View values = {raw.data, raw.size / SizeOf(op_.dtype), op_.dtype};
  if (step.kind == StepKind::kEncode) {
    Encode(values, dst);
  } else if (step.kind == StepKind::kDecode) {
    GW_RETURN_IF_ERROR(Decode(src, values));
  } else {
    std::vector<std::byte> decoded(raw.size);
    GW_RETURN_IF_ERROR(Decode(src, {decoded.data(), values.elems, op_.dtype}));
    ReduceInto(op_.dtype, op_.op, raw, {decoded.data(), raw.size}, raw);
  }
  return ++*cursor == step.dst.count;
}

}  // namespace gradwire
