// The sizes a run goes through.
#ifndef GRADWIRE_CLI_PERF_SIZE_LIST_H_
#define GRADWIRE_CLI_PERF_SIZE_LIST_H_

#include <cstdint>
#include <vector>

#include "base/status.h"

namespace gradwire {

// From min_bytes to max_bytes as nccl-tests goes: adding step_bytes if that is > 0, else
// multiplying by factor.
struct SizeRange {
  int64_t min_bytes = 32 << 20, max_bytes = 32 << 20, step_bytes = 0;
  double factor = 2;
};

// At least one size; ascending, each once. gwInvalidArgument: max < min, factor <= 1 or
// infinite, more than 10,000 sizes.
StatusOr<std::vector<int64_t>> ListSizes(const SizeRange& range);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_PERF_SIZE_LIST_H_
