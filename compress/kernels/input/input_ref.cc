// The specification: a plain loop, element by element.
#include <algorithm>
#include <cmath>

#include "compress/kernels/input/input_kernels.h"
#include "compress/kernels/scalar_ref.h"

namespace gradwire {

void MeasureInputRef(const EncodeJob& job) {
  for (int64_t i = 0; i < job.elems; ++i) {
    const float p = ref::CanonicalNan(ref::Input(job, i));
    if (job.e_out != nullptr) job.e_out[i] = p;
    if (ref::IsFinite(p)) {
      job.stats->sum_p2 += static_cast<double>(p) * p;
      job.stats->absmax = std::max(job.stats->absmax, std::fabs(p));
    } else {
      ++job.stats->nonfinite;
    }
  }
}

}  // namespace gradwire
