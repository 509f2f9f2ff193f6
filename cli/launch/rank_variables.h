// The environment that tells a process which rank of which job it is.
#ifndef GRADWIRE_CLI_LAUNCH_RANK_VARIABLES_H_
#define GRADWIRE_CLI_LAUNCH_RANK_VARIABLES_H_

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace gradwire {

// In the order in which they are set.
using Variables = std::vector<std::pair<std::string, std::string>>;

// What all ranks of a job share.
struct JobAddress {
  int ranks = 1;
  std::string host;  // where rank 0 can be reached
  int root_port = 0;
  int master_port = 0;  // for programs that bring their own rendezvous, as torch.distributed
  std::string secret;   // hexadecimal
};

// GRADWIRE_* for this library, RANK, WORLD_SIZE, ... as torchrun sets them for other programs.
Variables RankVariables(const JobAddress& job, int rank);

// In addition for a rank that is to be taken for a host of its own: no shared memory, all traffic
// through `interface`. `rate` is what the link is shaped to; empty: it is not.
Variables SeparateHostVariables(int rank, const std::string& interface, const std::string& rate);

// `path` with `folder` in front.
std::string PathWithFirst(const std::string& folder, const std::string& path);

// 256 random bits as 64 hexadecimal digits.
StatusOr<std::string> MakeSecret();

// A TCP port of `address` that nobody uses at this moment, below the range from which the kernel
// takes ports of its own accord.
StatusOr<int> FindFreePort(const std::string& address);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_LAUNCH_RANK_VARIABLES_H_
