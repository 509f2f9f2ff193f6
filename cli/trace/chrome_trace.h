// A recorded run as a Chrome trace, for chrome://tracing and Perfetto.
#ifndef GRADWIRE_CLI_TRACE_CHROME_TRACE_H_
#define GRADWIRE_CLI_TRACE_CHROME_TRACE_H_

#include <string>

#include "cli/trace/recorded_run.h"

namespace gradwire {

// JSON. A process for each rank, with three rows: its training steps, in which it computes or is
// blocked; what is encoded and decoded; when a schedule is under way. Times are microseconds since
// the first of all spans. A plan is marked at rank 0 where the step that led to it ends.
std::string ChromeTrace(const RecordedRun& run);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TRACE_CHROME_TRACE_H_
