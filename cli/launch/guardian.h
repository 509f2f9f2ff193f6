// Kills the process groups of ranks that outlive the launcher, however that ended. Ranks die with
// the launcher by themselves (StartRank); what they have started does not. Who has left the group
// (setsid) is not reached.
#ifndef GRADWIRE_CLI_LAUNCH_GUARDIAN_H_
#define GRADWIRE_CLI_LAUNCH_GUARDIAN_H_

#include <sys/types.h>

#include "base/status.h"
#include "base/unique_fd.h"

namespace gradwire {

// A child process that sleeps on a pipe which the launcher alone keeps open.
class Guardian {
 public:
  Guardian() = default;
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;
  // Groups that have not ended are killed. Waits for that.
  ~Guardian();

  // Before the first rank.
  Status Start();

  // A rank's process group exists now, or is gone for good.
  void NoteStarted(pid_t group) const;
  void NoteEnded(pid_t group) const;

  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  UniqueFd notes_;
};

}  // namespace gradwire

#endif  // GRADWIRE_CLI_LAUNCH_GUARDIAN_H_
