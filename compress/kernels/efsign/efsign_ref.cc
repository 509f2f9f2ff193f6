// The specification of codec `efsign`: plain loops, element by element.
#include <bit>
#include <cfloat>
#include <cstring>

#include "compress/kernels/efsign/efsign_kernels.h"
#include "compress/kernels/scalar_ref.h"
#include "compress/kernels/sum_lanes.h"

namespace gradwire {
namespace {

// The l1 mean. Large blocks are summed 2^-16 times smaller, so that 256 magnitudes cannot overflow.
float MeanMagnitude(const float* p, int64_t elems, uint32_t absmax_bits) {
  const bool large = absmax_bits >= kPlainEnd;
  float lanes[16] = {};
  for (int64_t i = 0; i < elems; ++i) {
    const float magnitude = std::fabs(p[i]);
    lanes[i % 16] += large ? magnitude * 0x1p-16f : magnitude;
  }
  const float mean = SumLanes(lanes) / static_cast<float>(elems);
  // Rounding may have pushed the mean of equal magnitudes past the largest float.
  return large ? std::min(mean, FLT_MAX * 0x1p-16f) * 0x1p16f : mean;
}

void StoreEmptyBlock(const EncodeJob& job, uint32_t scale_bits) {
  std::memset(job.out, 0, EfsignBytes(job.elems));
  ref::StoreAs(scale_bits, job.out);
}

void EncodeSigns(const EncodeJob& job, float scale, const float* p) {
  uint32_t words[kRunElems / 32] = {};
  for (int64_t i = 0; i < job.elems; ++i) {
    const bool negative = p[i] < 0;
    if (negative) words[i / 32] |= 1u << (i % 32);
    ref::Finish(job, i, p[i], negative ? -scale : scale);
  }
  ref::StoreAs(scale, job.out);
  std::memcpy(job.out + 4, words, EfsignBytes(job.elems) - 4);
}

void EncodeBlock(const EncodeJob& job) {
  float p[kRunElems];
  uint32_t absmax_bits = 0;
  for (int64_t i = 0; i < job.elems; ++i) {
    p[i] = ref::Input(job, i);
    absmax_bits = std::max(absmax_bits, ref::MagnitudeBits(p[i]));
  }
  if (absmax_bits >= kInfBits) {
    StoreEmptyBlock(job, kNanBits);
    for (int64_t i = 0; i < job.elems; ++i) ref::FinishNonFinite(job, i, p[i]);
    return;
  }
  const float scale = MeanMagnitude(p, job.elems, absmax_bits);
  if (ref::MagnitudeBits(scale) < kMinNormalBits) {
    StoreEmptyBlock(job, 0);
    for (int64_t i = 0; i < job.elems; ++i) ref::Finish(job, i, p[i], 0.0f);
    return;
  }
  EncodeSigns(job, scale, p);
}

bool DecodeBlock(const DecodeJob& job) {
  const auto scale_bits = ref::LoadAs<uint32_t>(job.payload);
  const bool nan = scale_bits == kNanBits;
  if (!nan && !IsEfsignScale(scale_bits)) return false;
  const bool has_signs = !nan && scale_bits != 0;
  const auto scale = std::bit_cast<float>(scale_bits);
  const int64_t bits = (EfsignBytes(job.elems) - 4) * 8;
  for (int64_t i = 0; i < bits; ++i) {
    const auto word = ref::LoadAs<uint32_t>(job.payload + 4 + i / 32 * 4);
    const bool negative = ((word >> (i % 32)) & 1u) != 0;
    if (negative && (i >= job.elems || !has_signs)) return false;
    if (i < job.elems) ref::Emit(job, i, negative ? -scale : scale);
  }
  return true;
}

}  // namespace

void EfsignEncodeRef(const EncodeJob& job) {
  for (int64_t first = 0; first < job.elems; first += kRunElems) {
    const int64_t elems = std::min(kRunElems, job.elems - first);
    EncodeBlock(job.Sub(first, elems, first / kRunElems * kEfsignBlockBytes));
  }
}

bool EfsignDecodeRef(const DecodeJob& job) {
  for (int64_t first = 0; first < job.elems; first += kRunElems) {
    const int64_t elems = std::min(kRunElems, job.elems - first);
    if (!DecodeBlock(job.Sub(first, elems, first / kRunElems * kEfsignBlockBytes))) return false;
  }
  return true;
}

}  // namespace gradwire
