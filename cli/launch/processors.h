// The processors that each rank of a host keeps to.
#ifndef GRADWIRE_CLI_LAUNCH_PROCESSORS_H_
#define GRADWIRE_CLI_LAUNCH_PROCESSORS_H_

#include <span>
#include <vector>

#include "base/status.h"

namespace gradwire {

// `cores` in as many parts of neighbours, by rank; where they do not come out even some have one
// more. gwInvalidArgument: there are not as many as ranks.
StatusOr<std::vector<std::vector<int>>> DivideCores(std::span<const int> cores, int ranks);

// Of the calling thread and all that it starts. False, and errno: the system does not allow it.
bool KeepTo(std::span<const int> cores);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_LAUNCH_PROCESSORS_H_
