// The parts of verification that need only one rank's schedule or the pairs of messages.
#ifndef GRADWIRE_COLLECTIVES_VERIFY_ORDER_H_
#define GRADWIRE_COLLECTIVES_VERIFY_ORDER_H_

#include "base/status.h"
#include "collectives/verify/world.h"

namespace gradwire {

// Regions inside their buffers, deps to earlier steps, ranks that agree about what is run.
Status CheckForm(std::span<const Schedule> schedules);
Status CheckHazards(const Schedule& schedule);  // I1
Status CheckMessages(const World& world);       // I2
Status CheckRounds(const World& world);         // I3
Status CheckStarted(const World& world);        // I8, and I5 for a barrier

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_VERIFY_ORDER_H_
