// RecorderLog: a recorder's file as read after the fact, whatever state it was left in.
#ifndef GRADWIRE_RUNTIME_RECORDER_RECORDER_LOG_H_
#define GRADWIRE_RUNTIME_RECORDER_RECORDER_LOG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/view.h"
#include "runtime/recorder/format.h"

namespace gradwire {

struct RecorderLog {
  RecorderHeader header;
  std::vector<RecorderEntry> entries;  // valid ones, seq ascending
  uint64_t overwritten = 0;            // older entries that the ring has no room for
  int64_t damaged = 0;                 // slots that hold something, but no valid entry
  std::string path;                    // where it was read, empty: from memory

  // Nanoseconds since 1970 of a moment on this process's monotonic clock.
  int64_t WallNs(int64_t time_ns) const {
    return static_cast<int64_t>(static_cast<uint64_t>(header.start_wall_ns) +
                                static_cast<uint64_t>(time_ns) -
                                static_cast<uint64_t>(header.start_time_ns));
  }
};

// Reads header and ring, as much of it as is there. Any bytes: a log, or gwDataCorrupt where the
// header is no valid one. Damaged entries are counted and left out; an entry that the process was
// killed while writing is one of them. Allocates at most the input's size.
StatusOr<RecorderLog> ParseRecorder(ConstBytes file);

// The same from a file, also while its process is still writing. gwSystemError: it cannot be read.
StatusOr<RecorderLog> ReadRecorder(const std::string& path);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_RECORDER_RECORDER_LOG_H_
