// Replays a plan log: the decisions are made again from the logged inputs.
#ifndef GRADWIRE_CLI_PLAN_PLAN_REPLAY_H_
#define GRADWIRE_CLI_PLAN_PLAN_REPLAY_H_

#include <istream>
#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/controller/decide.h"

namespace gradwire {

struct ReplayedDecision {
  uint64_t step = 0;  // that it was made from
  size_t job = 0;     // of Replay::jobs
  Decision decision;
  std::string line;  // as the log has it
};

struct Replay {
  std::vector<JobFacts> jobs;
  int64_t inputs = 0;
  std::vector<ReplayedDecision> decisions;
  // gwDataCorrupt with the last line's number where the log has no end: that of a job that was
  // killed, or a part of another.
  Status end;
};

// gwDataCorrupt with the line's number where the log cannot be read, a line was altered, added or
// left out, or a decision is another than the one that its inputs lead to.
StatusOr<Replay> ReplayPlanLog(std::istream& log);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_PLAN_PLAN_REPLAY_H_
