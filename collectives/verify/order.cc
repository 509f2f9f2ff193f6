#include "collectives/verify/order.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace gradwire {
namespace {

Status Wrong(const Schedule& schedule, int32_t step, std::string_view what) {
  return Status(gwInternalError, fmt::format("{} {}", DescribeStep(schedule, step), what));
}

// Sets of small numbers.
class BitSet {
 public:
  explicit BitSet(size_t bits) : words_((bits + 63) / 64) {}
  void Set(size_t bit) { words_[bit / 64] |= uint64_t{1} << (bit % 64); }
  bool Has(size_t bit) const { return (words_[bit / 64] >> (bit % 64)) & 1; }
  void Add(const BitSet& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }

 private:
  std::vector<uint64_t> words_;
};

// Memory that two steps may fight over. The caller's arrays count by logical shard, except that an
// all-to-all is never in place.
std::pair<int, int32_t> CellOf(const Schedule& schedule, const Region& region, int32_t i) {
  const BufferDecl& decl = schedule.buffers[region.buffer];
  const bool caller = decl.role == BufferRole::kInput || decl.role == BufferRole::kOutput;
  if (caller && schedule.collective != Collective::kAllToAll) {
    return {-1, decl.shard_ids[region.first + i]};
  }
  return {region.buffer, region.first + i};
}

Status CheckSchedule(const Schedule& schedule, const Schedule& first) {
  if (schedule.hash != first.hash || schedule.collective != first.collective ||
      schedule.root != first.root || schedule.logical_shards != first.logical_shards) {
    return Status(gwInternalError,
                  fmt::format("ranks 0 and {} do not run the same thing", schedule.rank));
  }
  for (int32_t i = 0; i < static_cast<int32_t>(schedule.steps.size()); ++i) {
    const Step& step = schedule.steps[i];
    for (const Region* region : {&step.src, &step.arg, &step.dst}) {
      if (region->count == 0) continue;
      if (region->buffer >= schedule.buffers.size() || region->first < 0 || region->count < 0 ||
          region->first + region->count >
              static_cast<int32_t>(schedule.buffers[region->buffer].shard_ids.size())) {
        return Wrong(schedule, i, "names shards that no buffer has");
      }
    }
    for (int32_t dep : schedule.DepsOf(step)) {
      if (dep < 0 || dep >= i) return Wrong(schedule, i, "depends on a later step");
    }
  }
  return Status::Ok();
}

// I3 within a rank. A stream runs the local steps of a round, then its messages all at once, then
// adds what was received.
Status CheckRoundsOfRank(const Schedule& schedule) {
  for (int32_t i = 0; i < static_cast<int32_t>(schedule.steps.size()); ++i) {
    const Step& step = schedule.steps[i];
    for (int32_t d : schedule.DepsOf(step)) {
      const Step& dep = schedule.steps[d];
      if (dep.round > step.round) return Wrong(schedule, i, "I3: depends on a later round");
      if (dep.round == step.round && IsMessage(dep.kind) && step.kind != StepKind::kRecvReduce) {
        return Wrong(schedule, i, "I3: depends on a message of its own round");
      }
    }
  }
  return Status::Ok();
}

}  // namespace

Status CheckForm(std::span<const Schedule> schedules) {
  for (size_t r = 0; r < schedules.size(); ++r) {
    if (schedules[r].rank != static_cast<int>(r) ||
        schedules[r].world_size != static_cast<int>(schedules.size())) {
      return Status(gwInternalError, fmt::format("schedule {} is not of this rank and world", r));
    }
    GW_RETURN_IF_ERROR(CheckSchedule(schedules[r], schedules[0]));
  }
  return Status::Ok();
}

Status CheckHazards(const Schedule& schedule) {
  struct Access {
    int32_t writer = -1;
    std::vector<int32_t> readers;  // since
  };
  std::map<std::pair<int, int32_t>, Access> cells;
  std::vector<BitSet> before;  // per step: all steps it comes after
  for (int32_t i = 0; i < static_cast<int32_t>(schedule.steps.size()); ++i) {
    const Step& step = schedule.steps[i];
    BitSet& mine = before.emplace_back(schedule.steps.size());
    for (int32_t dep : schedule.DepsOf(step)) {
      mine.Set(dep);
      mine.Add(before[dep]);
    }
    auto after = [&](int32_t other) { return other < 0 || other == i || mine.Has(other); };
    for (const Region* region : {&step.src, &step.arg, &step.dst}) {
      for (int32_t k = 0; k < region->count; ++k) {
        Access& cell = cells[CellOf(schedule, *region, k)];
        bool ordered = after(cell.writer);
        if (region == &step.dst) {
          for (int32_t reader : cell.readers) ordered = ordered && after(reader);
          cell = {.writer = i, .readers = {}};
        } else {
          cell.readers.push_back(i);
        }
        if (!ordered) return Wrong(schedule, i, "I1: is not ordered after an access to its shard");
      }
    }
  }
  return Status::Ok();
}

Status CheckMessages(const World& world) {
  for (const Schedule& schedule : world.schedules()) {
    for (int32_t i = 0; i < static_cast<int32_t>(schedule.steps.size()); ++i) {
      const Step& send = schedule.steps[i];
      if (send.kind != StepKind::kSend) continue;
      const GlobalStep other = world.PeerOf({schedule.rank, i});
      const Schedule& receiver = world.schedules()[other.rank];
      const Region& dst = world.At(other).dst;
      if (send.src.count != dst.count) return Wrong(schedule, i, "I2: shards differ at the ends");
      for (int32_t k = 0; k < dst.count; ++k) {
        const BufferDecl& from = schedule.buffers[send.src.buffer];
        const BufferDecl& to = receiver.buffers[dst.buffer];
        const bool same_kind =
            (from.role == BufferRole::kPayload) == (to.role == BufferRole::kPayload);
        const bool same_shard = schedule.collective == Collective::kAllToAll ||
                                from.shard_ids[send.src.first + k] == to.shard_ids[dst.first + k];
        if (!same_kind || !same_shard) {
          return Wrong(schedule, i, "I2: shards differ at the ends");
        }
      }
    }
  }
  return Status::Ok();
}

Status CheckRounds(const World& world) {
  // (from, to, round) -> messages in the order of the sender, and of the receiver.
  std::map<std::tuple<int, int, int32_t>, std::pair<std::vector<int32_t>, std::vector<int32_t>>>
      order;
  for (const Schedule& schedule : world.schedules()) {
    GW_RETURN_IF_ERROR(CheckRoundsOfRank(schedule));
    for (int32_t i = 0; i < static_cast<int32_t>(schedule.steps.size()); ++i) {
      const Step& step = schedule.steps[i];
      if (!IsMessage(step.kind)) continue;
      if (world.At(world.PeerOf({schedule.rank, i})).round != step.round) {
        return Wrong(schedule, i, "I3: is in different rounds at its ends");
      }
      if (step.kind == StepKind::kSend) {
        order[{schedule.rank, step.peer, step.round}].first.push_back(step.message);
      } else {
        order[{step.peer, schedule.rank, step.round}].second.push_back(step.message);
      }
    }
  }
  for (const auto& [key, messages] : order) {
    if (messages.first == messages.second) continue;
    return Status(gwInternalError,
                  fmt::format("I3: messages from {} to {} in round {} are listed "
                              "in different orders",
                              std::get<0>(key), std::get<1>(key), std::get<2>(key)));
  }
  return Status::Ok();
}

Status CheckStarted(const World& world) {
  // Which ranks are known to have started when a step is complete. Data flow only: that a send
  // completes says nothing about the receiver.
  std::vector<BitSet> started(world.steps(), BitSet(world.size()));
  std::vector<BitSet> at_end(world.size(), BitSet(world.size()));
  for (GlobalStep at : world.RendezvousOrder()) {
    BitSet& known = started[world.Index(at)];
    known.Set(at.rank);
    for (int32_t dep : world.schedules()[at.rank].DepsOf(world.At(at))) {
      known.Add(started[world.Index({at.rank, dep})]);
    }
    if (IsRecv(world.At(at).kind)) known.Add(started[world.Index(world.PeerOf(at))]);
    at_end[at.rank].Add(known);
  }
  for (const Schedule& schedule : world.schedules()) {
    for (int peer = 0; schedule.collective == Collective::kBarrier && peer < world.size(); ++peer) {
      if (peer == schedule.rank || at_end[schedule.rank].Has(peer)) continue;
      return Status(gwInternalError, fmt::format("I5: rank {} may leave the barrier before rank {} "
                                                 "has come",
                                                 schedule.rank, peer));
    }
    for (int32_t i = 0; i < static_cast<int32_t>(schedule.steps.size()); ++i) {
      const Step& step = schedule.steps[i];
      if (step.kind == StepKind::kSend && !at_end[schedule.rank].Has(step.peer)) {
        return Wrong(schedule, i, "I8: may be complete before its receiver has started");
      }
    }
  }
  return Status::Ok();
}

}  // namespace gradwire
