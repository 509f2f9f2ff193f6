// Where callers' buffers may lie.
#ifndef GRADWIRE_RUNTIME_CAPI_MEMORY_CHECK_H_
#define GRADWIRE_RUNTIME_CAPI_MEMORY_CHECK_H_

#include <cstdint>
#include <span>

#include "base/status.h"

namespace gradwire {

// A buffer as numbers: nothing is read.
struct AddressRange {
  AddressRange(const void* data, int64_t bytes)
      : begin(reinterpret_cast<uintptr_t>(data)), end(begin + static_cast<uintptr_t>(bytes)) {}
  bool Overlaps(const AddressRange& other) const { return begin < other.end && other.begin < end; }
  uintptr_t begin, end;
};

// One registered tensor's buffers.
struct BufferPair {
  const void* tensor;  // only compared
  const void* send;
  void* recv;
  int64_t bytes;
};

// A tensor's `recv` may be its `send`; apart from that nothing that is written may be anything else
// of the group. Reading the same memory twice is fine. A tensor that is there twice is somebody
// else's error. gwInvalidArgument tells the two places in the group.
Status CheckGroupMemory(std::span<const BufferPair> group);

// A reduce-scatter: `recv` is `shard_bytes` at `rank` of `ranks` in `send`, or apart from all of
// it.
Status CheckReduceScatterMemory(const void* send, const void* recv, int64_t shard_bytes, int rank,
                                int ranks);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CAPI_MEMORY_CHECK_H_
