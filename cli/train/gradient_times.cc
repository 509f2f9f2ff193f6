#include "cli/train/gradient_times.h"

#include <cmath>
#include <cstddef>

namespace gradwire {

std::vector<int64_t> GradientTimes(const ModelShapes& model, int64_t compute_ns) {
  const auto all = static_cast<double>(model.elems());
  const auto compute = static_cast<double>(compute_ns);
  std::vector<int64_t> times(model.tensors.size());
  double done = 0;
  for (size_t i = model.tensors.size(); i-- > 0;) {
    done += static_cast<double>(model.tensors[i].elems());
    const double share = kForwardShare + (1 - kForwardShare) * done / all;
    times[i] = static_cast<int64_t>(std::llround(compute * share));
  }
  return times;
}

}  // namespace gradwire
