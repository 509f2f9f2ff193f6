// How long the messages of slices may be.
#ifndef GRADWIRE_RUNTIME_OPERATIONS_SLICE_BYTES_H_
#define GRADWIRE_RUNTIME_OPERATIONS_SLICE_BYTES_H_

#include <algorithm>
#include <cstdint>

#include "collectives/schemes/part.h"
#include "collectives/schemes/raw/raw_slice.h"

namespace gradwire {

// No message of a slice is longer.
inline int64_t SliceBytes(int64_t slice_elems) {
  return std::max(slice_elems, kMaxCutElems) * kMaxElementBytes;
}

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_OPERATIONS_SLICE_BYTES_H_
