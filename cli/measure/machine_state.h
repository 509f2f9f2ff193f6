// Whether two cores share a cache at this moment: virtual machines change that under a running
// program, and results over shared memory compare only within one state.
#ifndef GRADWIRE_CLI_MEASURE_MACHINE_STATE_H_
#define GRADWIRE_CLI_MEASURE_MACHINE_STATE_H_

#include <optional>
#include <string>

#include "base/clock.h"

namespace gradwire {

// A round trip of a 64-byte cache line between two threads on two cores, in microseconds: the
// least of several batches, a few milliseconds in all. `is_rank`: of several processes, so that the
// second core is one that this process is held off, where it is. Nothing where there is only one
// core, or where no thread can be made.
std::optional<double> PingPongUs(const Clock& clock, bool is_rank);

// Above 0.2 us; below it the cores share a cache.
bool IsSlow(double us);

// "0.11 us (fast)"
std::string MachineStateText(std::optional<double> us);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_MEASURE_MACHINE_STATE_H_
