// All ends of one communicator in one thread: loopback transports, reference work and event
// drivers, for the driver's tests.
#ifndef GRADWIRE_COLLECTIVES_DRIVERS_DRIVER_ENDS_H_
#define GRADWIRE_COLLECTIVES_DRIVERS_DRIVER_ENDS_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/drivers/event_driver.h"
#include "collectives/schedule.h"
#include "collectives/verify/reference_work.h"
#include "transports/faulty/faulty_transport.h"
#include "transports/loopback/loopback_ends.h"

namespace gradwire {

inline constexpr uint64_t kJob = 77, kSignature = 99;
inline constexpr int64_t kMaxMessageBytes = 64 * 1024;

struct DriverCase {
  const AlgorithmRow* row = nullptr;
  int n = 1, root = 0;
  int64_t elems = 0;  // of the whole array
  uint64_t seed = 1;
  FaultPlan plan;
  bool faulty = false;

  std::string ToString() const {
    return row->name + " " + std::string(Name(row->collective)) + ", " + std::to_string(n) +
           " ranks, root " + std::to_string(root) + ", " + std::to_string(elems) +
           " elements, seed " + std::to_string(seed);
  }
};

// One rank: transport, work, driver.
struct End {
  std::unique_ptr<Transport> transport;
  std::unique_ptr<PreparedSchedule> schedule;
  std::unique_ptr<ReferenceWork> work;
  std::unique_ptr<EventDriver> driver;
  MessageRecord record;
};

class Ends {
 public:
  explicit Ends(const DriverCase& c) : case_(c), ends_(c.n) {
    auto transports = MakeLoopbackEnds(c.n);
    EXPECT_TRUE(transports.ok());
    for (int rank = 0; c.faulty && rank < c.n; ++rank) {
      FaultPlan plan = c.plan;
      plan.seed = c.seed * 100 + rank;
      std::unique_ptr<Transport>& end = (*transports)[rank];
      end = MakeFaulty(std::move(end), plan);
    }
    EXPECT_TRUE(ConnectEnds(*transports).ok());
    for (int rank = 0; rank < c.n; ++rank) MakeEnd(rank, std::move((*transports)[rank]));
  }

  End& operator[](int rank) { return ends_[rank]; }

  void Start(int rank, uint64_t signature = kSignature, RunKey key = {}) {
    End& end = ends_[rank];
    end.driver->Start({.key = key,
                       .schedule = end.schedule.get(),
                       .work = end.work.get(),
                       .signature = signature});
  }
  // Every end in turn until nothing moves for many rounds (a faulty end counts polls as time).
  void PollUntilStill() {
    for (int still = 0; still < 50;) {
      bool moved = false;
      for (End& end : ends_) moved |= end.driver->Poll();
      still = moved ? 0 : still + 1;
    }
  }
  const Partition& partition() const { return partition_; }

 private:
  void MakeEnd(int rank, std::unique_ptr<Transport> transport) {
    End& end = ends_[rank];
    end.schedule = std::make_unique<PreparedSchedule>(case_.row->make(rank, case_.n, case_.root));
    const Schedule& schedule = end.schedule->schedule;
    partition_ = EvenPartition(case_.elems, schedule.logical_shards);
    end.work = std::make_unique<ReferenceWork>(
        &schedule, ReferenceOp{.partition = partition_, .dtype = DType::kInt64});
    end.transport = std::move(transport);
    end.driver = std::make_unique<EventDriver>(
        end.transport.get(), EventDriver::Options{.rank = rank,
                                                  .world_size = case_.n,
                                                  .job = kJob,
                                                  .max_message_bytes = kMaxMessageBytes});
    end.driver->SetRecord(&end.record);
  }

  const DriverCase case_;
  Partition partition_;
  std::vector<End> ends_;
};

inline const AlgorithmRow& Row(Collective collective, const char* name) {
  return **FindAlgorithm(collective, name);
}

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_DRIVERS_DRIVER_ENDS_H_
