// ScheduleCache: prepared schedules of one rank, made when first needed and kept.
#ifndef GRADWIRE_RUNTIME_OPERATIONS_SCHEDULE_CACHE_H_
#define GRADWIRE_RUNTIME_OPERATIONS_SCHEDULE_CACHE_H_

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "collectives/cost/cost.h"
#include "collectives/executor.h"
#include "collectives/schedule.h"

namespace gradwire {

// Threads: any. Schedules live as long as the cache.
class ScheduleCache {
 public:
  ScheduleCache(int rank, int world_size) : rank_(rank), world_size_(world_size) {}

  const PreparedSchedule* Get(const AlgorithmRow& algorithm, int root) {
    const std::lock_guard lock(mu_);
    std::unique_ptr<PreparedSchedule>& prepared = schedules_[{&algorithm, root}].prepared;
    if (!prepared) {
      prepared = std::make_unique<PreparedSchedule>(algorithm.make(rank_, world_size_, root));
    }
    return prepared.get();
  }

  // The most encodes that a contribution passes on its way to an output; -1 where the schedules
  // cannot tell. The first call for an algorithm runs schedules of a few ranks symbolically, for
  // which nobody else waits.
  int EncodesPerElem(const AlgorithmRow& algorithm, int root) {
    {
      const std::lock_guard lock(mu_);
      if (const std::optional<int> known = schedules_[{&algorithm, root}].encodes) return *known;
    }
    const int encodes = CountEncodes(algorithm);
    const std::lock_guard lock(mu_);
    return schedules_[{&algorithm, root}].encodes.emplace(encodes);
  }

 private:
  struct Entry {
    std::unique_ptr<PreparedSchedule> prepared;
    std::optional<int> encodes;
  };

  // Registered schedules pass the symbolic run: the conformance suite sees to that.
  int CountEncodes(const AlgorithmRow& algorithm) const {
    if (!algorithm.encoded) return 0;  // saves the run where there is nothing to count
    const StatusOr<int> encodes = gradwire::EncodesPerElem(algorithm, world_size_);
    return encodes.ok() ? *encodes : -1;
  }

  const int rank_, world_size_;
  std::mutex mu_;
  std::map<std::pair<const AlgorithmRow*, int>, Entry> schedules_;
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_OPERATIONS_SCHEDULE_CACHE_H_
