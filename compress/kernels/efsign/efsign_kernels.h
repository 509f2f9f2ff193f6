// Sign with the l1 mean per block (Karimireddy et al., "Error feedback fixes SignSGD", ICML 2019):
// the arithmetic of codec `efsign`. docs/wire_format.md describes the bytes.
#ifndef GRADWIRE_COMPRESS_KERNELS_EFSIGN_EFSIGN_KERNELS_H_
#define GRADWIRE_COMPRESS_KERNELS_EFSIGN_EFSIGN_KERNELS_H_

#include <cstdint>

#include "compress/kernels/kernel_job.h"

namespace gradwire {

// Bytes of a whole block of kRunElems elements: scale and sign bits.
inline constexpr int64_t kEfsignBlockBytes = 4 + kRunElems / 8;

// Bytes of `elems` elements; exact.
inline int64_t EfsignBytes(int64_t elems) {
  const int64_t rest = elems % kRunElems;
  return elems / kRunElems * kEfsignBlockBytes + (rest == 0 ? 0 : 4 + (rest + 31) / 32 * 4);
}

// Zero, or a normal finite float.
inline bool IsEfsignScale(uint32_t bits) {
  return bits == 0 || (bits >= kMinNormalBits && bits < kInfBits);
}

struct EfsignKernels {
  // job.out has EfsignBytes(elems) bytes.
  void (*encode)(const EncodeJob&);
  // False: the payload is not what an encoder makes; the output is then undefined, but nothing
  // outside it was touched.
  bool (*decode)(const DecodeJob&);
};

// The reference: any number of elements, tail included.
void EfsignEncodeRef(const EncodeJob& job);
bool EfsignDecodeRef(const DecodeJob& job);

// The kernels of the active SIMD target.
const EfsignKernels& ActiveEfsignKernels();

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_KERNELS_EFSIGN_EFSIGN_KERNELS_H_
