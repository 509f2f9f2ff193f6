// The recorder files of a folder, sorted into jobs.
#ifndef GRADWIRE_CLI_DIAGNOSE_RECORDER_FOLDER_H_
#define GRADWIRE_CLI_DIAGNOSE_RECORDER_FOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/recorder/recorder_log.h"

namespace gradwire {

struct RecordedJob {
  uint64_t job = 0;
  int64_t start_wall_ns = 0;  // of the rank that started last
  std::vector<RecorderLog> logs;
};

struct RecorderFolder {
  std::vector<RecordedJob> jobs;        // the newest first
  std::vector<std::string> unreadable;  // "path: why"
};

// Reads every *.rec of `dir`, and of `dir` itself where it is a file. gwSystemError: there is no
// such folder, or no file of that name in it.
StatusOr<RecorderFolder> ReadRecorderFolder(const std::string& dir);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_DIAGNOSE_RECORDER_FOLDER_H_
