#include "collectives/verify/world.h"

#include <fmt/format.h>

#include <map>
#include <tuple>

namespace gradwire {

std::string DescribeStep(const Schedule& schedule, int32_t index) {
  const Step& step = schedule.steps[index];
  std::string text = fmt::format("rank {} step {} ({}", schedule.rank, index, Name(step.kind));
  if (IsMessage(step.kind)) {
    text += fmt::format(" {} {}, message {}", step.kind == StepKind::kSend ? "to" : "from",
                        step.peer, step.message);
  }
  return text + ")";
}

StatusOr<World> World::Make(std::span<const Schedule> schedules) {
  World world;
  world.schedules_ = schedules;
  world.first_.push_back(0);
  for (const Schedule& schedule : schedules) {
    world.first_.push_back(world.first_.back() + static_cast<int64_t>(schedule.steps.size()));
  }
  world.peers_.resize(world.first_.back());
  GW_RETURN_IF_ERROR(world.PairMessages());
  return world;
}

Status World::PairMessages() {
  // (from, to, message) -> who sends it, who receives it.
  std::map<std::tuple<int, int, int32_t>, GlobalStep> sends, recvs;
  for (int rank = 0; rank < size(); ++rank) {
    const Schedule& schedule = schedules_[rank];
    for (int32_t i = 0; i < static_cast<int32_t>(schedule.steps.size()); ++i) {
      const Step& step = schedule.steps[i];
      if (!IsMessage(step.kind)) continue;
      if (step.peer < 0 || step.peer >= size() || step.peer == rank) {
        return Status(gwInternalError, DescribeStep(schedule, i) + " has no such peer");
      }
      const bool send = step.kind == StepKind::kSend;
      const auto key = send ? std::tuple(rank, step.peer, step.message)
                            : std::tuple(step.peer, rank, step.message);
      if (!(send ? sends : recvs).emplace(key, GlobalStep{rank, i}).second) {
        return Status(gwInternalError, DescribeStep(schedule, i) + " repeats a message number");
      }
    }
  }
  for (const auto& [key, send] : sends) {
    auto recv = recvs.find(key);
    if (recv == recvs.end()) {
      return Status(gwInternalError,
                    DescribeStep(schedules_[send.rank], send.step) + " is never received");
    }
    peers_[Index(send)] = recv->second;
    peers_[Index(recv->second)] = send;
    recvs.erase(recv);
  }
  if (recvs.empty()) return Status::Ok();
  const GlobalStep recv = recvs.begin()->second;
  return Status(gwInternalError, DescribeStep(schedules_[recv.rank], recv.step) + " is never sent");
}

std::vector<GlobalStep> World::RendezvousOrder() const {
  // Dependencies not yet complete, of both ends together and counted at the send.
  std::vector<int32_t> missing(steps(), 0);
  std::vector<std::vector<GlobalStep>> dependents(steps());
  auto event = [&](GlobalStep at) { return IsRecv(At(at).kind) ? PeerOf(at) : at; };
  std::vector<GlobalStep> order, ready;
  for (int rank = 0; rank < size(); ++rank) {
    const Schedule& schedule = schedules_[rank];
    for (int32_t i = 0; i < static_cast<int32_t>(schedule.steps.size()); ++i) {
      for (int32_t dep : schedule.DepsOf(schedule.steps[i])) {
        ++missing[Index(event({rank, i}))];
        dependents[Index({rank, dep})].push_back(event({rank, i}));
      }
    }
  }
  for (int rank = size() - 1; rank >= 0; --rank) {
    for (int32_t i = static_cast<int32_t>(schedules_[rank].steps.size()) - 1; i >= 0; --i) {
      const GlobalStep at = {rank, i};
      if (!IsRecv(At(at).kind) && missing[Index(at)] == 0) ready.push_back(at);
    }
  }
  auto complete = [&](GlobalStep at) {
    order.push_back(at);
    for (GlobalStep next : dependents[Index(at)]) {
      if (--missing[Index(next)] == 0) ready.push_back(next);
    }
  };
  while (!ready.empty()) {
    const GlobalStep at = ready.back();
    ready.pop_back();
    complete(at);
    if (At(at).kind == StepKind::kSend) complete(PeerOf(at));
  }
  return order;
}

std::vector<Schedule> MakeAll(const AlgorithmRow& row, int world_size, int root) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < world_size; ++rank) {
    schedules.push_back(row.make(rank, world_size, root));
  }
  return schedules;
}

}  // namespace gradwire
