// Integers under one scale of the whole tensor, rounded at random: sums of them are integers of the
// sum. docs/algorithms.md has the error law.
#ifndef GRADWIRE_COMPRESS_KERNELS_INTSGD_INTSGD_KERNELS_H_
#define GRADWIRE_COMPRESS_KERNELS_INTSGD_INTSGD_KERNELS_H_

#include <cstdint>

#include "base/dtype.h"
#include "compress/kernels/kernel_job.h"

namespace gradwire {

struct IntsgdShape {
  DType type = DType::kInt8;         // int8 or int32: of the integers and of their sum
  int32_t most = 0;                  // of one rank, either way; a float holds it exactly
  int32_t most_of_sum = 0;           // of all ranks
  float unit = 1, inverse_unit = 1;  // finite, not zero
};

struct IntsgdKernels {
  // job.out: elems integers. q = p / unit, clipped to `most`, one of the two integers beside it;
  // e_out = p - q * unit. Runs that are not finite become zeros and leave their residuals.
  void (*encode)(const IntsgdShape&, const EncodeJob&);
  // job.payload: the sums of all ranks' integers; job.to: kStore. False: one of them is larger than
  // the ranks can make it; the output is then undefined.
  bool (*decode)(const IntsgdShape&, const DecodeJob&);
};

// The reference: any number of elements.
void IntsgdEncodeRef(const IntsgdShape& shape, const EncodeJob& job);
bool IntsgdDecodeRef(const IntsgdShape& shape, const DecodeJob& job);

// The kernels of the active SIMD target.
const IntsgdKernels& ActiveIntsgdKernels();

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_KERNELS_INTSGD_INTSGD_KERNELS_H_
