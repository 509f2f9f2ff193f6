// StreamOperation: the slices of one operation on a stream. So far only tests run it, as the stream
// driver.
#ifndef GRADWIRE_COLLECTIVES_SCHEMES_STREAM_OPERATION_H_
#define GRADWIRE_COLLECTIVES_SCHEMES_STREAM_OPERATION_H_

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/workspace.h"
#include "collectives/drivers/stream_driver.h"
#include "collectives/schemes/slice_op.h"

namespace gradwire {

// Where a scheme needs several runs a slice, the first runs of all slices come before all second
// ones: how many rounds a run has, one rank cannot know of the others. The stream still uses
// slices, schedules and this object's scratch when Issue returns: they live until it has passed.
class StreamOperation {
 public:
  explicit StreamOperation(std::span<const std::unique_ptr<SliceOp>> slices) : slices_(slices) {}

  // Enqueues everything, once. After an error nothing more is to be put on the stream.
  Status Issue(StreamTransport* transport);

 private:
  Status BeginRuns(std::vector<StreamRun>* runs);

  const std::span<const std::unique_ptr<SliceOp>> slices_;
  std::map<const PreparedSchedule*, StreamPlan> plans_;
  std::vector<AlignedBuffer> scratch_;  // one a run
};

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_SCHEMES_STREAM_OPERATION_H_
