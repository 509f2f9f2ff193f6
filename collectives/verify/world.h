// World: the schedules of all ranks as one graph, for checks, costs and reference runs. Tools for
// tests and for the command line; nothing of it is on a data path.
#ifndef GRADWIRE_COLLECTIVES_VERIFY_WORLD_H_
#define GRADWIRE_COLLECTIVES_VERIFY_WORLD_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "collectives/schedule.h"

namespace gradwire {

// "rank 2 step 5 (recv from 1, message 0)"
std::string DescribeStep(const Schedule& schedule, int32_t step);

// A step of any rank.
struct GlobalStep {
  int rank = 0;
  int32_t step = 0;
};

class World {
 public:
  // Pairs sends with receives. Error: a message that is sent twice, has no other end, or goes to a
  // rank outside (invariant I2, the part about pairs). The schedules must outlive the world, in
  // rank order, with deps that point at steps of theirs.
  static StatusOr<World> Make(std::span<const Schedule> schedules);

  std::span<const Schedule> schedules() const { return schedules_; }
  int size() const { return static_cast<int>(schedules_.size()); }
  const Step& At(GlobalStep at) const { return schedules_[at.rank].steps[at.step]; }
  // The other end of a send or receive.
  GlobalStep PeerOf(GlobalStep at) const { return peers_[Index(at)]; }

  // Every step after all it depends on, with a send and its receive as one event: neither happens
  // before the dependencies of both are complete (rendezvous). Shorter than all steps where there
  // is a cycle (invariant I4). Both ends are listed, the send first.
  std::vector<GlobalStep> RendezvousOrder() const;

  int64_t Index(GlobalStep at) const { return first_[at.rank] + at.step; }
  int64_t steps() const { return first_.back(); }

 private:
  World() = default;
  Status PairMessages();

  std::span<const Schedule> schedules_;
  std::vector<int64_t> first_;     // per rank + 1: global index of its step 0
  std::vector<GlobalStep> peers_;  // by global index
};

// All ranks' schedules of an algorithm.
std::vector<Schedule> MakeAll(const AlgorithmRow& row, int world_size, int root = 0);

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_VERIFY_WORLD_H_
