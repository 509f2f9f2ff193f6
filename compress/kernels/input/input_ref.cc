// The specification: a plain loop, element by element.
#include <algorithm>
#include <cmath>

#include "compress/kernels/input/input_kernels.h"
#include "compress/kernels/scalar_ref.h"

namespace gradwire {

void CountInputRef(float p, EncodeStats* stats) {
  if (!ref::IsFinite(p)) {
    ++stats->nonfinite;
    return;
  }
  stats->sum_p2 += static_cast<double>(p) * p;
  stats->absmax = std::max(stats->absmax, std::fabs(p));
}

void MeasureInputRef(const InputJob& job) {
  for (int64_t i = 0; i < job.elems; ++i) {
    const float p = ref::CanonicalNan(ref::Input(job, i));
    if (job.e_out != nullptr) job.e_out[i] = p;
    CountInputRef(p, job.stats);
  }
}

}  // namespace gradwire
