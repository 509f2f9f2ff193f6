// ScheduleCache: prepared schedules of one rank, made when first needed and kept.
#ifndef GRADWIRE_RUNTIME_SCHEDULE_CACHE_H_
#define GRADWIRE_RUNTIME_SCHEDULE_CACHE_H_

#include <map>
#include <memory>
#include <utility>

#include "collectives/executor.h"
#include "collectives/schedule.h"

namespace gradwire {

// Threads: one at a time. Schedules live as long as the cache.
class ScheduleCache {
 public:
  ScheduleCache(int rank, int world_size) : rank_(rank), world_size_(world_size) {}

  const PreparedSchedule* Get(const AlgorithmRow& algorithm, int root) {
    std::unique_ptr<PreparedSchedule>& entry = schedules_[{&algorithm, root}];
    if (!entry) {
      entry = std::make_unique<PreparedSchedule>(algorithm.make(rank_, world_size_, root));
    }
    return entry.get();
  }

 private:
  const int rank_, world_size_;
  std::map<std::pair<const AlgorithmRow*, int>, std::unique_ptr<PreparedSchedule>> schedules_;
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_SCHEDULE_CACHE_H_
