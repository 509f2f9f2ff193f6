// Processor time of the thread that asks, where that is measured instead of time that passes.
#ifndef GRADWIRE_CLI_MEASURE_THREAD_CLOCK_H_
#define GRADWIRE_CLI_MEASURE_THREAD_CLOCK_H_

#include "base/clock.h"

namespace gradwire {

// Each thread has an origin of its own. Lives until the process ends.
const Clock& ThreadClock();

}  // namespace gradwire

#endif  // GRADWIRE_CLI_MEASURE_THREAD_CLOCK_H_
