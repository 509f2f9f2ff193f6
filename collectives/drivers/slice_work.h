// SliceWork: the memory and the arithmetic behind one run of a schedule. A scheme provides it; a
// driver moves messages into and out of it and calls its local steps.
#ifndef GRADWIRE_COLLECTIVES_DRIVERS_SLICE_WORK_H_
#define GRADWIRE_COLLECTIVES_DRIVERS_SLICE_WORK_H_

#include <cstdint>

#include "base/status.h"
#include "base/view.h"
#include "collectives/schedule.h"

namespace gradwire {

class SliceWork {
 public:
  virtual ~SliceWork() = default;

  // Memory of a region, contiguous, valid until the run is done. Empty for a region of no shards.
  virtual Bytes Memory(const Region& region) = 0;

  // Exact bytes of the message that carries this region (the SizeMap). Where codecs are not of
  // fixed size: the bound.
  virtual int64_t MessageBytes(const Region& region) const = 0;

  // kRecvReduce: dst = arg op fragment, for the bytes [offset, offset + fragment.size) of the
  // message. Fragment borders are multiples of 64 bytes. Raw elements only.
  virtual void Combine(const Step& step, int64_t offset, ConstBytes fragment) = 0;

  // Advances a local step by one quantum (at most 256 KiB of input), starting at *cursor (0 at
  // first, moved on; its unit is the implementation's). True when the step is finished.
  virtual StatusOr<bool> Compute(const Step& step, int64_t* cursor) = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_DRIVERS_SLICE_WORK_H_
