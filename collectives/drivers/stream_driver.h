// Stream driver: runs a schedule where nothing reports back, everything is only put on a stream:
// NCCL.
//
// A schedule's rounds take the place of its dependencies. A round is: its local steps, one group
// with all its messages, then the additions of what was received (a stream cannot add while it
// receives). Invariant I3 of schedules makes that right.
//
// So far only tests run it, over messages: it waits for the transport over NCCL.
//
// Transports of this kind need one order of calls on all ranks. Several runs may be under way, one
// per slice: IssueRounds has the order.
#ifndef GRADWIRE_COLLECTIVES_DRIVERS_STREAM_DRIVER_H_
#define GRADWIRE_COLLECTIVES_DRIVERS_STREAM_DRIVER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/view.h"
#include "collectives/drivers/slice_work.h"
#include "collectives/schedule.h"

namespace gradwire {

// Point-to-point messages in groups, as ncclGroupStart and its relatives. Calls only enqueue; sends
// and receives of a group proceed together, so their order among different peers is of no matter.
// Memory stays valid until the stream has passed the group.
class StreamTransport {
 public:
  virtual ~StreamTransport() = default;
  virtual Status GroupStart() = 0;
  // To or from another rank, never empty.
  virtual Status Send(int peer, ConstBytes bytes) = 0;
  virtual Status Recv(int peer, Bytes bytes) = 0;
  virtual Status GroupEnd() = 0;
};

// A schedule by rounds, derived once and shared by all runs.
struct StreamPlan {
  struct Round {
    std::vector<int32_t> local;     // steps, in schedule order
    std::vector<int32_t> messages;  // sends and receives
  };
  explicit StreamPlan(const Schedule* s);
  const Schedule* schedule;  // outlives the plan
  std::vector<Round> rounds;
};

// Bytes that a run needs for what it receives and adds later: the most any round needs, every
// message on a border of 64 bytes.
int64_t StreamScratchBytes(const StreamPlan& plan, const SliceWork& work);

// One run. Bare headers are left out: a stream's order says more than they do. A group that would
// be empty is not opened. After an error the run must not be continued.
class StreamRun {
 public:
  // All outlive what the run puts on the stream; `scratch` has StreamScratchBytes, in the memory of
  // the slice.
  StreamRun(const StreamPlan* plan, SliceWork* work, Bytes scratch)
      : plan_(plan), work_(work), scratch_(scratch) {}

  int rounds() const { return static_cast<int>(plan_->rounds.size()); }
  int next_round() const { return next_; }
  bool done() const { return next_ == rounds(); }

  // Enqueues next_round(). A group is closed even where one of its calls failed.
  Status IssueRound(StreamTransport* transport);

 private:
  Status IssueLocal(const StreamPlan::Round& round);
  Status IssueMessages(const StreamPlan::Round& round, StreamTransport* transport);
  void AddReceived(const StreamPlan::Round& round);

  const StreamPlan* const plan_;
  SliceWork* const work_;
  const Bytes scratch_;
  int next_ = 0;
};

// Issues all rounds of runs that begin together, one for each slice, in the order of
// (slice + round, slice): while one slice is on the wire the next one computes, and all ranks call
// in one order whatever they know of each other's progress.
Status IssueRounds(std::span<StreamRun> slices, StreamTransport* transport);

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_DRIVERS_STREAM_DRIVER_H_
