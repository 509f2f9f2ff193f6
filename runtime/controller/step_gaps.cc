#include "runtime/controller/step_gaps.h"

#include <algorithm>

namespace gradwire {
namespace {

// As many times as long as gaps usually are: what varies is part of training.
constexpr int64_t kPause = 3;

}  // namespace

int64_t StepGaps::OfStep(int64_t gap_ns, int64_t inside_ns) {
  gaps_ns_[gaps_++ % kKept] = gap_ns;
  std::array<int64_t, kKept> gaps = gaps_ns_;
  const int64_t known = std::min<int64_t>(gaps_, kKept);
  const auto middle = gaps.begin() + (known - 1) / 2;
  std::nth_element(gaps.begin(), middle, gaps.begin() + known);
  const bool is_pause = gap_ns > kPause * *middle && gap_ns > inside_ns;
  return is_pause ? *middle : gap_ns;
}

}  // namespace gradwire
