// JobRecord: the logs of all ranks of one job, merged: who submitted which operation, who voted
// what, who lost whom.
#ifndef GRADWIRE_RUNTIME_RECORDER_JOB_RECORD_H_
#define GRADWIRE_RUNTIME_RECORDER_JOB_RECORD_H_

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/recorder/recorder_log.h"

namespace gradwire {

// A place in the order of submission, which is the same on all ranks. `turn` counts on past 65535;
// its zero is arbitrary, but one for all ranks. `op_seq` counts on past 2^32 within a turn.
struct OpPosition {
  int64_t turn = 0;
  int64_t op_seq = 0;
  // As frames and entries have it.
  uint32_t number() const { return static_cast<uint32_t>(op_seq); }
  friend auto operator<=>(const OpPosition&, const OpPosition&) = default;
};

struct OpOnRank {
  uint64_t signature = 0;
  bool signed_here = false;  // `signature`, `bytes` and `dtype` are known
  int64_t bytes = 0;
  uint8_t dtype = 0xFF;
  bool complete = false;
  int32_t status = 0;
  std::string text;
};
using OpRecord =
    std::map<int, OpOnRank>;  // by rank; only ranks that are known to have submitted it

struct RankRecord {
  bool present = false;  // there is a readable file
  RecorderLog log;
  int64_t end_wall_ns = 0;               // of the last entry
  OpPosition next;                       // the first place this rank has not submitted at
  std::map<int64_t, int64_t> ended;      // by turn: operations submitted when the caller ended it
  std::map<int64_t, int64_t> submitted;  // by turn: operations known to be submitted
  std::optional<RecorderEntry> waiting;  // the last kWaiting, if nothing moved after it
  std::optional<RecorderEntry> error;    // first kError
  std::optional<uint64_t> open_step;     // begun, and not ended by the caller
  bool closed = false;
  const RecorderEntry* last() const { return log.entries.empty() ? nullptr : &log.entries.back(); }
};

// One rank's word at one moment. `entry.turn` is raw, `turn` is that of OpPosition.
struct Report {
  int rank = 0;
  int64_t wall_ns = 0;
  int64_t turn = 0;
  RecorderEntry entry;
};

struct JobRecord {
  uint64_t job = 0;
  int world_size = 0;
  int64_t end_wall_ns = 0;  // of the last entry of all
  int64_t last_turn = 0;
  int64_t last_committed = INT64_MIN;  // turn of the last result that was a commit
  std::vector<RankRecord> ranks;       // world_size of them
  std::map<OpPosition, OpRecord> ops;
  std::map<int64_t, std::map<int, RecorderEntry>> votes;  // by turn and voter; own word first
  std::vector<Report> losses;            // kPeerLost, and kError that names a lost peer; by time
  std::vector<Report> revokes, results;  // by time

  // True, false, or nothing where the entries that would tell are overwritten or missing.
  std::optional<bool> Submitted(int rank, OpPosition at) const;
};

// `logs` belong to one job. Where two have the same rank, the one that was opened later counts.
JobRecord MergeLogs(std::vector<RecorderLog> logs);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_RECORDER_JOB_RECORD_H_
