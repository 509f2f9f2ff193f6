// One rank as a process of its own, with pipes for what it writes.
#ifndef GRADWIRE_CLI_LAUNCH_RANK_PROCESS_H_
#define GRADWIRE_CLI_LAUNCH_RANK_PROCESS_H_

#include <sys/resource.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "cli/launch/rank_variables.h"

namespace gradwire {

// What differs from rank to rank.
struct RankSetup {
  Variables variables;
  int net_namespace_fd = -1;    // -1: the launcher's own
  std::vector<int> cores = {};  // that it keeps to; none: the launcher's
};

struct RankProcess {
  pid_t pid = -1;  // also its process group
  UniqueFd out, err;
};

// Starts `command` as rank `rank`: in a process group of its own, killed with the launcher,
// standard input from the launcher's for rank 0 (unless that is a terminal, which a group in the
// background may not read) and empty for the others, `open_files` as its limit of those.
// gwInvalidArgument: the command cannot be started; gwSystemError: anything else.
StatusOr<RankProcess> StartRank(const std::vector<std::string>& command, const RankSetup& setup,
                                int rank, const rlimit& open_files);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_LAUNCH_RANK_PROCESS_H_
