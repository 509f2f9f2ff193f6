#include "collectives/verify/symbolic.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace gradwire {
namespace {

class Run {
 public:
  Run(const World& world, Placement placement) : world_(world), placement_(placement) {
    for (const Schedule& schedule : world.schedules()) {
      std::vector<std::vector<SymbolicValue>>& buffers = memory_.emplace_back();
      for (const BufferDecl& decl : schedule.buffers) buffers.emplace_back(decl.shard_ids.size());
      FillInput(schedule);
    }
  }

  Status Execute(GlobalStep at);
  SymbolicMemory TakeMemory() { return std::move(memory_); }

 private:
  void FillInput(const Schedule& schedule);
  SymbolicValue& Cell(int rank, const Region& region, int32_t i);
  Status Store(GlobalStep at, int32_t i, SymbolicValue value);
  StatusOr<SymbolicValue> Incoming(GlobalStep at, int32_t i);
  StatusOr<SymbolicValue> Result(GlobalStep at, int32_t i);
  Status Wrong(GlobalStep at, std::string_view what) const {
    return Status(gwInternalError,
                  fmt::format("{} {}", DescribeStep(world_.schedules()[at.rank], at.step), what));
  }

  const World& world_;
  const Placement placement_;
  SymbolicMemory memory_;
};

void Run::FillInput(const Schedule& schedule) {
  for (size_t b = 0; b < schedule.buffers.size(); ++b) {
    const BufferDecl& decl = schedule.buffers[b];
    if (decl.role != BufferRole::kInput) continue;
    for (size_t i = 0; i < decl.shard_ids.size(); ++i) {
      const Region region = {static_cast<uint8_t>(b), static_cast<int32_t>(i), 1};
      SymbolicValue& cell = Cell(schedule.rank, region, 0);
      cell = {.shard = decl.shard_ids[i], .ranks = std::vector<uint16_t>(world_.size(), 0)};
      cell.ranks[schedule.rank] = 1;
    }
  }
}

// In place, the input shard with an output shard of the same number lives in the output.
SymbolicValue& Run::Cell(int rank, const Region& region, int32_t i) {
  const Schedule& schedule = world_.schedules()[rank];
  const BufferDecl& decl = schedule.buffers[region.buffer];
  const int32_t shard = region.first + i;
  if (placement_ == Placement::kInPlace && decl.role == BufferRole::kInput) {
    for (size_t b = 0; b < schedule.buffers.size(); ++b) {
      if (schedule.buffers[b].role != BufferRole::kOutput) continue;
      const std::vector<int32_t>& ids = schedule.buffers[b].shard_ids;
      auto it = std::find(ids.begin(), ids.end(), decl.shard_ids[shard]);
      if (it != ids.end()) return memory_[rank][b][it - ids.begin()];
    }
  }
  return memory_[rank][region.buffer][shard];
}

Status Run::Store(GlobalStep at, int32_t i, SymbolicValue value) {
  const Region& dst = world_.At(at).dst;
  const BufferDecl& decl = world_.schedules()[at.rank].buffers[dst.buffer];
  if (decl.role == BufferRole::kInput) return Wrong(at, "writes the input");
  if (value.encoded != (decl.role == BufferRole::kPayload)) {
    return Wrong(at, value.encoded ? "puts a payload among raw elements"
                                   : "puts raw elements among payloads");
  }
  // Only an all-to-all moves a shard to a place of another number.
  if (world_.schedules()[at.rank].collective != Collective::kAllToAll &&
      value.shard != decl.shard_ids[dst.first + i]) {
    return Wrong(at, fmt::format("writes shard {} where shard {} belongs", value.shard,
                                 decl.shard_ids[dst.first + i]));
  }
  Cell(at.rank, dst, i) = std::move(value);
  return Status::Ok();
}

StatusOr<SymbolicValue> Sum(const SymbolicValue& a, const SymbolicValue& b) {
  if (a.empty() || b.empty()) return Status(gwInternalError, "adds what nothing wrote");
  if (a.encoded || b.encoded) return Status(gwInternalError, "adds a payload");
  if (a.shard != b.shard) return Status(gwInternalError, "adds different shards");
  SymbolicValue sum = a;
  for (size_t r = 0; r < sum.ranks.size(); ++r) sum.ranks[r] += b.ranks[r];
  sum.encodes = std::max(a.encodes, b.encodes);
  return sum;
}

StatusOr<SymbolicValue> Run::Incoming(GlobalStep at, int32_t i) {
  const GlobalStep from = world_.PeerOf(at);
  const Region& src = world_.At(from).src;
  if (src.count != world_.At(at).dst.count) return Wrong(at, "expects other shards than are sent");
  SymbolicValue value = Cell(from.rank, src, i);
  if (value.empty()) return Wrong(from, "sends what nothing wrote");
  return value;
}

StatusOr<SymbolicValue> Run::Result(GlobalStep at, int32_t i) {
  const Step& step = world_.At(at);
  SymbolicValue value;
  if (IsRecv(step.kind)) {
    StatusOr<SymbolicValue> incoming = Incoming(at, i);
    if (!incoming.ok()) return incoming;
    value = std::move(*incoming);
  } else {
    value = Cell(at.rank, step.src, i);
  }
  if (value.empty()) return Wrong(at, "reads what nothing wrote");
  switch (step.kind) {
    case StepKind::kSend:
    case StepKind::kRecv:
    case StepKind::kCopy: return value;
    case StepKind::kReduce:
    case StepKind::kRecvReduce: return Sum(Cell(at.rank, step.arg, i), value);
    case StepKind::kEncode:
      if (value.encoded) return Wrong(at, "encodes a payload");
      value.encoded = true;
      ++value.encodes;
      return value;
    case StepKind::kDecode:
    case StepKind::kDecodeAdd:
      if (!value.encoded) return Wrong(at, "decodes raw elements");
      value.encoded = false;
      if (step.kind == StepKind::kDecode) return value;
      return Sum(Cell(at.rank, step.dst, i), value);
  }
  return value;
}

Status Run::Execute(GlobalStep at) {
  const Step& step = world_.At(at);
  // Its receive takes the value when it comes next in the order.
  if (step.kind == StepKind::kSend) return Status::Ok();
  if (!IsRecv(step.kind) && step.src.count != step.dst.count) {
    return Wrong(at, "has a source and a destination of different lengths");
  }
  for (int32_t i = 0; i < step.dst.count; ++i) {
    StatusOr<SymbolicValue> value = Result(at, i);
    if (!value.ok()) {
      const bool named = value.status().detail().message.starts_with("rank ");
      return named ? value.status() : Wrong(at, value.status().detail().message);
    }
    GW_RETURN_IF_ERROR(Store(at, i, std::move(*value)));
  }
  return Status::Ok();
}

}  // namespace

StatusOr<SymbolicMemory> RunSymbolically(const World& world, Placement placement) {
  const std::vector<GlobalStep> order = world.RendezvousOrder();
  if (static_cast<int64_t>(order.size()) != world.steps()) {
    return Status(gwInternalError, "the ranks wait for each other in a circle");
  }
  Run run(world, placement);
  for (GlobalStep at : order) GW_RETURN_IF_ERROR(run.Execute(at));
  return run.TakeMemory();
}

}  // namespace gradwire
