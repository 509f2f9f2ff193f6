// How far a codec's all-reduce may be from the true sum, element by element.
#ifndef GRADWIRE_CLI_PERF_ERROR_LAW_H_
#define GRADWIRE_CLI_PERF_ERROR_LAW_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/view.h"
#include "cli/perf/pattern.h"

namespace gradwire {

// What a check of one result found.
struct ErrorFound {
  // Elements outside the codec's bound; all, where the whole is further off than the codec's law
  // allows; -1: no law is known for this codec.
  int64_t wrong = 0;
  double relerr = 0;  // |out - true| / |true|, 2-norms
};

// Compares `out`, the all-reduced elements [0, out.elems) of the ranks' patterns, with their true
// reduction by `op` (sum or average) under the bound of `spec`. The ranks' residuals were zero.
// gwInvalidArgument: the spec is not understood.
StatusOr<ErrorFound> CompareWithTruth(std::string_view spec, const std::vector<Pattern>& by_rank,
                                      ReduceOp op, ConstView out);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_PERF_ERROR_LAW_H_
