#include "collectives/schedule.h"

#include <algorithm>
#include <cassert>

#include "base/hash.h"

namespace gradwire {

std::string_view Name(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce: return "all-reduce";
    case Collective::kReduce: return "reduce";
    case Collective::kBroadcast: return "broadcast";
    case Collective::kAllGather: return "all-gather";
    case Collective::kReduceScatter: return "reduce-scatter";
    case Collective::kAllToAll: return "all-to-all";
    case Collective::kBarrier: return "barrier";
  }
  return "unknown collective";
}

bool Reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduce ||
         collective == Collective::kReduceScatter;
}

bool GivesToAll(Collective collective) {
  return collective == Collective::kAllGather || collective == Collective::kReduceScatter ||
         collective == Collective::kAllToAll;
}

std::string_view Name(BufferRole role) {
  switch (role) {
    case BufferRole::kInput: return "input";
    case BufferRole::kOutput: return "output";
    case BufferRole::kScratch: return "scratch";
    case BufferRole::kPayload: return "payload";
  }
  return "unknown role";
}

std::string_view Name(StepKind kind) {
  switch (kind) {
    case StepKind::kSend: return "send";
    case StepKind::kRecv: return "recv";
    case StepKind::kRecvReduce: return "recv-reduce";
    case StepKind::kReduce: return "reduce";
    case StepKind::kCopy: return "copy";
    case StepKind::kEncode: return "encode";
    case StepKind::kDecode: return "decode";
    case StepKind::kDecodeAdd: return "decode-add";
  }
  return "unknown step";
}

Partition EvenPartition(int64_t elems, int32_t shards, int64_t quantum) {
  assert(elems >= 0 && shards >= 0 && quantum >= 1);
  // Whole quanta first: `more` shards take one quantum more than the rest.
  const int64_t quanta = elems / quantum;
  const int64_t each = shards > 0 ? quanta / shards : 0;
  const int64_t more = shards > 0 ? quanta % shards : 0;
  Partition partition;
  partition.begin.resize(shards + 1);
  for (int32_t l = 0; l < shards; ++l) {
    partition.begin[l] = (each * l + std::min<int64_t>(l, more)) * quantum;
  }
  partition.begin[shards] = elems;
  return partition;
}

ScheduleBuilder::ScheduleBuilder(Collective collective, int rank, int world_size, int root,
                                 int32_t logical_shards) {
  assert(0 <= rank && rank < world_size && 0 <= root && root < world_size);
  schedule_.collective = collective;
  schedule_.rank = rank;
  schedule_.world_size = world_size;
  schedule_.root = root;
  schedule_.logical_shards = logical_shards;
  caller_cells_.resize(logical_shards);
}

uint8_t ScheduleBuilder::AddBuffer(BufferRole role, std::vector<int32_t> shard_ids) {
  assert(schedule_.buffers.size() < 255);
  cells_.emplace_back(shard_ids.size());
  schedule_.buffers.push_back({.role = role, .shard_ids = std::move(shard_ids)});
  return static_cast<uint8_t>(schedule_.buffers.size() - 1);
}

int32_t ScheduleBuilder::Send(int peer, int32_t message, int32_t round, Region src) {
  return Add(
      {.kind = StepKind::kSend, .src = src, .peer = peer, .message = message, .round = round});
}

int32_t ScheduleBuilder::Recv(int peer, int32_t message, int32_t round, Region dst) {
  return Add(
      {.kind = StepKind::kRecv, .dst = dst, .peer = peer, .message = message, .round = round});
}

int32_t ScheduleBuilder::RecvReduce(int peer, int32_t message, int32_t round, Region arg,
                                    Region dst) {
  return Add({.kind = StepKind::kRecvReduce,
              .arg = arg,
              .dst = dst,
              .peer = peer,
              .message = message,
              .round = round});
}

int32_t ScheduleBuilder::Local(StepKind kind, int32_t round, Region src, Region dst, Region arg) {
  return Add({.kind = kind, .src = src, .arg = arg, .dst = dst, .round = round});
}

void ScheduleBuilder::Order(int32_t before, int32_t after) {
  assert(0 <= before && before < after && after < static_cast<int32_t>(step_deps_.size()));
  step_deps_[after].push_back(before);
}

ScheduleBuilder::Cell& ScheduleBuilder::CellOf(uint8_t buffer, int32_t shard) {
  const BufferDecl& decl = schedule_.buffers[buffer];
  const bool caller = decl.role == BufferRole::kInput || decl.role == BufferRole::kOutput;
  // An all-to-all is never in place, so its arrays are apart: taken together, every pair of ranks
  // would wait for each other's array to be sent.
  if (caller && schedule_.collective != Collective::kAllToAll) {
    return caller_cells_[decl.shard_ids[shard]];
  }
  return cells_[buffer][shard];
}

void ScheduleBuilder::Touch(int32_t step, const Region& region, bool writes,
                            std::vector<int32_t>* deps) {
  for (int32_t i = 0; i < region.count; ++i) {
    Cell& cell = CellOf(region.buffer, region.first + i);
    if (cell.writer >= 0 && cell.writer != step) deps->push_back(cell.writer);
    if (!writes) {
      cell.readers.push_back(step);
      continue;
    }
    for (int32_t reader : cell.readers) {
      if (reader != step) deps->push_back(reader);
    }
    cell.readers.clear();
    cell.writer = step;
  }
}

int32_t ScheduleBuilder::Add(Step step) {
  const int32_t index = static_cast<int32_t>(schedule_.steps.size());
  std::vector<int32_t> deps;
  Touch(index, step.src, /*writes=*/false, &deps);
  Touch(index, step.arg, /*writes=*/false, &deps);
  // A decode-add reads what it writes; as a writer it depends on the last writer in any case.
  Touch(index, step.dst, /*writes=*/true, &deps);
  schedule_.steps.push_back(step);
  step_deps_.push_back(std::move(deps));
  return index;
}

Schedule ScheduleBuilder::Build(std::string_view algorithm) && {
  for (size_t i = 0; i < schedule_.steps.size(); ++i) {
    std::vector<int32_t>& deps = step_deps_[i];
    std::sort(deps.begin(), deps.end());
    deps.erase(std::unique(deps.begin(), deps.end()), deps.end());
    schedule_.steps[i].deps_begin = static_cast<uint32_t>(schedule_.deps.size());
    schedule_.steps[i].deps_count = static_cast<uint32_t>(deps.size());
    schedule_.deps.insert(schedule_.deps.end(), deps.begin(), deps.end());
  }
  schedule_.hash = Hasher()
                       .Add(algorithm)
                       .Add(schedule_.collective)
                       .Add(schedule_.world_size)
                       .Add(schedule_.root)
                       .Add(schedule_.logical_shards)
                       .digest();
  return std::move(schedule_);
}

}  // namespace gradwire
