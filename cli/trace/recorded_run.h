// What `gradwire train --timeline` left behind: the JSON of the run, and a file of spans by each
// rank. Of other programs there are the spans alone.
#ifndef GRADWIRE_CLI_TRACE_RECORDED_RUN_H_
#define GRADWIRE_CLI_TRACE_RECORDED_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/timeline.h"
#include "cli/measure/plan_change.h"

namespace gradwire {

struct RecordedRun {
  std::vector<std::vector<Span>> ranks;  // as written: in the order of their ends
  std::vector<int64_t> left_out;         // of each rank, spans behind its last; empty: none
  std::vector<PlanChange> plans;
  std::vector<std::string> files;  // that it was read from
};

// `path` is that of the run's JSON, or FILE of record_timeline=FILE, where each rank of any program
// has left its spans as FILE.RANK. gwInvalidArgument: a file cannot be read, is something else
// (with the line where it is one of spans), or is of another job than the others.
StatusOr<RecordedRun> ReadRecordedRun(const std::string& path);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TRACE_RECORDED_RUN_H_
