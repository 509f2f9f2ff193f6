// The start of a communicator: rendezvous, transport, control plane.
#ifndef GRADWIRE_RUNTIME_START_COMM_START_H_
#define GRADWIRE_RUNTIME_START_COMM_START_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/settings.h"
#include "base/status.h"
#include "runtime/communicator/communicator.h"
#include "transports/bootstrap/launcher.h"
#include "transports/bootstrap/unique_id.h"

namespace gradwire {

// Joins by unique id or by the launcher's environment (no launcher: a world of one). Collective.
StatusOr<std::unique_ptr<Communicator>> StartByUniqueId(const UniqueId& id, int rank,
                                                        int world_size, const Settings& settings);

// A rank's place in a group of a communicator's ranks.
struct GroupPlace {
  UniqueId id = {};  // the group's
  int rank = 0, world_size = 1;
  uint64_t seed_salt = 0;  // the group's: its random rounding is that of no other group
};

// The same for such a group. `interrupted` (outlives the call) is set from any thread when the
// group cannot come together any more: gwRevoked within 100 ms. Files that the settings name get
// the job behind their name: other groups of the process have the same settings.
StatusOr<std::unique_ptr<Communicator>> StartGroup(const GroupPlace& place,
                                                   const Settings& settings,
                                                   const std::atomic<bool>* interrupted);
StatusOr<std::unique_ptr<Communicator>> StartByEnvironment(const Environment& environment,
                                                           const Settings& settings);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_START_COMM_START_H_
