// Runs one process per rank until all have ended: passes on what they write, forwards signals, and
// ends the others when one fails.
#ifndef GRADWIRE_CLI_LAUNCH_LAUNCHER_H_
#define GRADWIRE_CLI_LAUNCH_LAUNCHER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "cli/launch/rank_process.h"
#include "transports/bootstrap/launch_board.h"

namespace gradwire {

// Something to do while the ranks run.
struct TimedAction {
  int64_t at_ns = 0;  // after the last rank has been started
  std::function<void()> run;
};

struct LaunchOptions {
  std::vector<std::string> command;      // not empty
  std::vector<RankSetup> ranks;          // one each
  int64_t timeout_ns = 0;                // for all of it; 0: none
  int64_t grace_ns = 15 * kNsPerSecond;  // that the others have after a failure or a signal
  std::vector<TimedAction> actions;      // in the order of their times
  LaunchBoard* board = nullptr;          // is told which ranks have ended
  bool shows_progress = false;           // pass on lines that rank 0 overwrites
};

inline constexpr int kTimeoutExitCode = 124;
inline constexpr int kLostOutputExitCode = 1;

// Output: rank 0's lines as they are, the others' with "[rank] " in front, standard output and
// error kept apart. Where it is not read fast enough the ranks' own writing has to wait; time-outs
// and signals do not. SIGINT, SIGTERM and SIGHUP go to all ranks; a second one kills them, but for
// SIGHUP. SIGUSR1 and SIGUSR2 are passed on, SIGTSTP stops all; one that is ignored at the start
// stays ignored.
//
// Returns the exit code of the job: that of the rank that failed first, 128 + n for one that died
// of signal n (which may be seen after others' errors), 124 for a time-out, 1 if only output could
// not be written, else 0. Errors: a command
// that cannot be started (gwInvalidArgument), or the system (gwSystemError); no rank is left then.
//
// Call it from a process with one thread that does not ignore SIGCHLD, once at a time: it takes
// SIGCHLD and the signals above for itself while it runs, and reaps every child.
StatusOr<int> Launch(const LaunchOptions& options, const Clock& clock);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_LAUNCH_LAUNCHER_H_
