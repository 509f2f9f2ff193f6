// Recorder: the flight recorder of one communicator. Always on: what the engine did last stands in
// a ring of 4096 entries, in a file that outlives the process or in plain memory.
//
//   RecorderOptions options = {.dir = settings.Text("recorder_dir"), .job = job, ...};
//   StatusOr<std::unique_ptr<Recorder>> recorder = Recorder::Open(options);
//   (*recorder)->Record({.kind = RecordKind::kSubmit, .time_ns = clock.NowNs(), ...});
//
// The file is a shared mapping: every entry is in it the moment Record returns, whatever happens to
// the process then. `gradwire diagnose` reads the files of all ranks.
#ifndef GRADWIRE_RUNTIME_RECORDER_RECORDER_H_
#define GRADWIRE_RUNTIME_RECORDER_RECORDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/status.h"
#include "base/view.h"
#include "runtime/recorder/format.h"

namespace gradwire {

struct RecorderOptions {
  std::string dir;  // of the file; made if missing (its parent must exist). Empty: memory only
  uint64_t job = 0;
  int rank = 0;
  int world_size = 1;
  uint32_t epoch = 0;
  std::string host;                     // name of the machine, for the report
  int64_t start_wall_ns = 0;            // now, since 1970
  int64_t start_time_ns = 0;            // now, on the clock of RecorderEvent::time_ns
  int64_t capacity = kRecorderEntries;  // a power of two, up to kMaxRecorderEntries
};

// One thing that happened. Only `kind` and `time_ns` are always there; RecordKind tells what else.
struct RecorderEvent {
  RecordKind kind = RecordKind::kError;
  int64_t time_ns = 0;  // monotonic, the clock of RecorderOptions::start_time_ns
  uint16_t turn = 0;
  uint32_t op_seq = 0;
  uint32_t slice = 0;
  uint64_t step = 0;
  int peer = -1;
  int64_t bytes = 0;
  std::optional<DType> dtype;
  uint64_t signature = 0;
  gwResult_t status = gwSuccess;
  int32_t value = 0;
  RecordProgress progress;
  // What the entry holds is cut to 52 bytes: the end of `text` where it stands alone, else the
  // beginning of `tensor`, which follows it after a space.
  std::string_view text;    // operation ("all-reduce") or message
  std::string_view tensor;  // registered name
};

class Recorder {
 public:
  // gwInvalidArgument: capacity or rank. gwSystemError: the file cannot be made or its space not be
  // reserved (so that a full disk is found here and not by a signal later). An older file of the
  // same name is replaced, not overwritten: who still maps it is not disturbed.
  static StatusOr<std::unique_ptr<Recorder>> Open(const RecorderOptions& options);

  ~Recorder();  // The file stays.
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Takes about 40 ns; no allocation, no system call. One thread at a time.
  void Record(const RecorderEvent& event);

  // The file as it is now: header and ring. Valid until the next Record.
  ConstBytes memory() const { return {memory_, bytes_}; }

  // Empty where there is no file.
  const std::string& path() const { return path_; }
  uint64_t recorded() const { return next_seq_ - 1; }

 private:
  Recorder(std::byte* memory, int64_t bytes, std::string path)
      : memory_(memory), bytes_(bytes), path_(std::move(path)) {}
  void WriteHeader(const RecorderOptions& options);

  std::byte* const memory_;  // our mapping, ended by the destructor
  const int64_t bytes_;
  const std::string path_;
  uint64_t mask_ = 0;
  uint64_t next_seq_ = 1;
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_RECORDER_RECORDER_H_
