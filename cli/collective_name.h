// Collectives as users write them.
#ifndef GRADWIRE_CLI_COLLECTIVE_NAME_H_
#define GRADWIRE_CLI_COLLECTIVE_NAME_H_

#include <string_view>

#include "base/status.h"
#include "collectives/schedule.h"

namespace gradwire {

// "all-reduce", "allreduce", "all_reduce", "AllReduce": letters count, nothing else.
// gwInvalidArgument with the nearest name otherwise.
StatusOr<Collective> ParseCollective(std::string_view text);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_COLLECTIVE_NAME_H_
