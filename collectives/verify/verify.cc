#include "collectives/verify/verify.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "collectives/verify/order.h"
#include "collectives/verify/symbolic.h"
#include "collectives/verify/world.h"

namespace gradwire {
namespace {

// What one output shard must hold.
struct Promise {
  int32_t shard = 0;
  int only_rank = -1;  // -1: every rank once
};

Promise PromiseOf(const Schedule& schedule, int32_t logical_shard) {
  switch (schedule.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kReduceScatter: return {.shard = logical_shard};
    case Collective::kBroadcast: return {.shard = logical_shard, .only_rank = schedule.root};
    case Collective::kAllGather: return {.shard = logical_shard, .only_rank = logical_shard};
    // Shard i of the output is what rank i had for this rank.
    case Collective::kAllToAll: return {.shard = schedule.rank, .only_rank = logical_shard};
    case Collective::kBarrier: break;
  }
  return {};
}

bool Holds(const SymbolicValue& value, const Promise& promise) {
  if (value.shard != promise.shard || value.encoded) return false;
  for (size_t r = 0; r < value.ranks.size(); ++r) {
    const bool wanted = promise.only_rank < 0 || promise.only_rank == static_cast<int>(r);
    if (value.ranks[r] != (wanted ? 1 : 0)) return false;
  }
  return true;
}

// Logical shards that this rank's output must have.
std::vector<int32_t> OutputShards(const Schedule& schedule) {
  const bool all = schedule.collective == Collective::kAllReduce ||
                   schedule.collective == Collective::kBroadcast ||
                   schedule.collective == Collective::kAllGather ||
                   schedule.collective == Collective::kAllToAll ||
                   (schedule.collective == Collective::kReduce && schedule.rank == schedule.root);
  if (schedule.collective == Collective::kReduceScatter) return {schedule.rank};
  std::vector<int32_t> shards;
  for (int32_t l = 0; all && l < schedule.logical_shards; ++l) shards.push_back(l);
  return shards;
}

Status CheckOutput(const Schedule& schedule,
                   const std::vector<std::vector<SymbolicValue>>& memory) {
  std::vector<int32_t> found;
  for (size_t b = 0; b < schedule.buffers.size(); ++b) {
    const BufferDecl& decl = schedule.buffers[b];
    if (decl.role != BufferRole::kOutput) continue;
    for (size_t i = 0; i < decl.shard_ids.size(); ++i) {
      found.push_back(decl.shard_ids[i]);
      if (Holds(memory[b][i], PromiseOf(schedule, decl.shard_ids[i]))) continue;
      return Status(gwInternalError,
                    fmt::format("I5: output shard {} of rank {} does not hold what a {} promises",
                                decl.shard_ids[i], schedule.rank, Name(schedule.collective)));
    }
  }
  if (found == OutputShards(schedule)) return Status::Ok();
  return Status(gwInternalError, fmt::format("I5: the output of rank {} has other shards than a {}",
                                             schedule.rank, Name(schedule.collective)));
}

Status CheckResults(const World& world) {
  const bool has_in_place = world.schedules()[0].collective != Collective::kAllToAll;
  for (Placement placement : {Placement::kApart, Placement::kInPlace}) {
    if (placement == Placement::kInPlace && !has_in_place) continue;
    StatusOr<SymbolicMemory> memory = RunSymbolically(world, placement);
    if (!memory.ok()) {
      return Status(gwInternalError, "I5: " + memory.status().detail().message);
    }
    for (const Schedule& schedule : world.schedules()) {
      GW_RETURN_IF_ERROR(CheckOutput(schedule, (*memory)[schedule.rank]));
    }
  }
  return Status::Ok();
}

Status CheckTotals(std::span<const Schedule> schedules, const WireTotals& totals) {
  WireTotals counted;
  for (const Schedule& schedule : schedules) {
    for (const Step& step : schedule.steps) {
      if (step.kind != StepKind::kSend) continue;
      ++counted.messages;
      counted.shards += step.src.count;
    }
  }
  if (counted.messages == totals.messages && counted.shards == totals.shards) return Status::Ok();
  return Status(gwInternalError,
                fmt::format("I6: {} messages with {} shards, not {} with {}", counted.messages,
                            counted.shards, totals.messages, totals.shards));
}

}  // namespace

Status VerifySchedules(std::span<const Schedule> schedules, const WireTotals& totals) {
  GW_RETURN_IF_ERROR(CheckForm(schedules));
  for (const Schedule& schedule : schedules) GW_RETURN_IF_ERROR(CheckHazards(schedule));
  StatusOr<World> world = World::Make(schedules);
  if (!world.ok()) return Status(gwInternalError, "I2: " + world.status().detail().message);
  GW_RETURN_IF_ERROR(CheckMessages(*world));
  GW_RETURN_IF_ERROR(CheckRounds(*world));
  if (static_cast<int64_t>(world->RendezvousOrder().size()) != world->steps()) {
    return Status(gwInternalError, "I4: the ranks wait for each other in a circle");
  }
  GW_RETURN_IF_ERROR(CheckResults(*world));
  GW_RETURN_IF_ERROR(CheckTotals(schedules, totals));
  return CheckStarted(*world);
}

Status VerifyAll(const AlgorithmRow& row, int world_size, int root) {
  const std::vector<Schedule> schedules = MakeAll(row, world_size, root);
  return VerifySchedules(schedules, row.totals(world_size))
      .WithOp(fmt::format("{} {} of {} ranks, root {}", row.name, Name(row.collective), world_size,
                          root));
}

}  // namespace gradwire
