// The scalar arithmetic all reference kernels share: the specification of input, residual and
// output.
#ifndef GRADWIRE_COMPRESS_KERNELS_SCALAR_REF_H_
#define GRADWIRE_COMPRESS_KERNELS_SCALAR_REF_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/float16.h"
#include "compress/kernels/kernel_job.h"

namespace gradwire::ref {

static_assert(std::endian::native == std::endian::little, "payloads are little endian");

template <typename T>
T LoadAs(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <typename T>
void StoreAs(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof(T));
}

inline uint32_t MagnitudeBits(float v) { return std::bit_cast<uint32_t>(v) & 0x7FFFFFFFu; }
inline bool IsFinite(float v) { return MagnitudeBits(v) < kInfBits; }

inline float Grad(const InputJob& job, int64_t i) {
  if (job.dtype == DType::kFloat32) return LoadAs<float>(job.grad + 4 * i);
  const auto half = LoadAs<uint16_t>(job.grad + 2 * i);
  return job.dtype == DType::kFloat16 ? FloatFromFp16(half) : FloatFromBf16(half);
}

// p = fl(grad * in_scale) + e_in; without e_in nothing is added, so that -0 stays -0.
inline float Input(const InputJob& job, int64_t i) {
  const float scaled = Grad(job, i) * job.in_scale;
  return job.e_in == nullptr ? scaled : scaled + job.e_in[i];
}

// out[k] = the dither of element first + k of the job, with which a group of kDitherGroupElems
// begins; `out` has room for whole groups.
inline void FillDither(const EncodeJob& job, int64_t first, int64_t elems, uint16_t* out) {
  const int64_t group = (job.dither.first_elem + first) / kDitherGroupElems;
  for (int64_t k = 0; k < elems; k += kDitherGroupElems) {
    DitherHalves(job.dither, group + k / kDitherGroupElems, out + k);
  }
}

// e_out = fl(p - decoded), and the statistics of one finite element.
inline void Finish(const InputJob& job, int64_t i, float p, float decoded) {
  const float error = p - decoded;
  if (job.e_out != nullptr) job.e_out[i] = error;
  job.stats->sum_p2 += static_cast<double>(p) * p;
  job.stats->sum_err2 += static_cast<double>(error) * error;
  job.stats->absmax = std::max(job.stats->absmax, std::fabs(p));
}

// An element whose block is not finite: its residual stays, its gradient is not folded in.
inline void FinishNonFinite(const InputJob& job, int64_t i, float p) {
  if (job.e_out != nullptr) job.e_out[i] = job.e_in == nullptr ? 0.0f : job.e_in[i];
  if (IsFinite(p)) {
    job.stats->absmax = std::max(job.stats->absmax, std::fabs(p));
  } else {
    ++job.stats->nonfinite;
  }
}

// A NaN is always written as the same bits, whatever its operands were.
inline float CanonicalNan(float v) { return std::isnan(v) ? std::bit_cast<float>(kNanBits) : v; }

inline void Emit(const DecodeJob& job, int64_t i, float decoded) {
  if (job.to == DecodeTo::kAdd) {
    StoreAs(CanonicalNan(LoadAs<float>(job.out + 4 * i) + decoded), job.out + 4 * i);
    return;
  }
  const float value = CanonicalNan(decoded * job.out_scale);
  if (job.dtype == DType::kFloat32) {
    StoreAs(value, job.out + 4 * i);
  } else {
    const bool fp16 = job.dtype == DType::kFloat16;
    StoreAs(fp16 ? Fp16FromFloat(value) : Bf16FromFloat(value), job.out + 2 * i);
  }
}

}  // namespace gradwire::ref

#endif  // GRADWIRE_COMPRESS_KERNELS_SCALAR_REF_H_
