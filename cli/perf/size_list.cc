#include "cli/perf/size_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace gradwire {
namespace {

constexpr size_t kMaxSizes = 10'000;

// The size after `bytes`; above range.max_bytes: there is none.
int64_t Next(const SizeRange& range, int64_t bytes) {
  if (range.step_bytes > 0) return bytes + range.step_bytes;
  const double next = static_cast<double>(bytes) * range.factor;
  // Rounding would overflow where the factor is huge.
  if (next > static_cast<double>(range.max_bytes) + 1) return range.max_bytes + 1;
  return std::max(static_cast<int64_t>(std::llround(next)), bytes + 1);
}

}  // namespace

StatusOr<std::vector<int64_t>> ListSizes(const SizeRange& range) {
  if (range.max_bytes < range.min_bytes) {
    return Status(gwInvalidArgument,
                  fmt::format("the largest size {} is below the smallest {}", range.max_bytes,
                              range.min_bytes),
                  "-b sets the smallest, -e the largest");
  }
  if (range.step_bytes == 0 && !(range.factor > 1 && std::isfinite(range.factor))) {
    return Status(gwInvalidArgument,
                  fmt::format("the factor {} is no number above 1", range.factor));
  }
  std::vector<int64_t> sizes;
  for (int64_t bytes = range.min_bytes; bytes <= range.max_bytes; bytes = Next(range, bytes)) {
    if (sizes.size() == kMaxSizes) {
      return Status(gwInvalidArgument, fmt::format("these are more than {} sizes", kMaxSizes),
                    "Take a larger step or factor, or less from the smallest to the largest");
    }
    sizes.push_back(bytes);
  }
  return sizes;
}

}  // namespace gradwire
