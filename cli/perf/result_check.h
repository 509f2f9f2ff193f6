// The exact collectives' inputs and what must come out of them.
#ifndef GRADWIRE_CLI_PERF_RESULT_CHECK_H_
#define GRADWIRE_CLI_PERF_RESULT_CHECK_H_

#include <cstdint>

#include "base/view.h"
#include "cli/perf/perf_case.h"

namespace gradwire {

// Who looks at the case: rank `rank` of `ranks`.
struct Place {
  int rank = 0, ranks = 1;
};

// Writes this rank's input.
void FillExactInput(const PerfCase& c, const Place& place, View send);

// Elements of this rank's output that are not what the exact collective gives; 0 where the
// collective gives this rank nothing.
int64_t CountWrong(const PerfCase& c, const Place& place, ConstView recv);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_PERF_RESULT_CHECK_H_
