// The input p of a codec by itself: its statistics, and p as floats for a codec that sends some
// elements and keeps the others.
#ifndef GRADWIRE_COMPRESS_KERNELS_INPUT_INPUT_KERNELS_H_
#define GRADWIRE_COMPRESS_KERNELS_INPUT_INPUT_KERNELS_H_

#include "compress/kernels/kernel_job.h"

namespace gradwire {

// Adds sum_p2, absmax and nonfinite of p; an element is a block of its own. Writes p, a NaN as
// kNanBits, to e_out unless that is null. Neither `out` nor `dither` is looked at.
using MeasureInput = void (*)(const EncodeJob& job);

// The reference.
void MeasureInputRef(const EncodeJob& job);

// The kernel of the active SIMD target.
MeasureInput ActiveMeasureInput();

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_KERNELS_INPUT_INPUT_KERNELS_H_
