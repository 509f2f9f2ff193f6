// SIMD kernels of integers under one scale; intsgd_ref.cc says what they compute, byte for byte.
// Runs that are not finite and the tail go to the reference.
#include <cassert>

#include "compress/kernels/dispatch.h"
#include "compress/kernels/intsgd/intsgd_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress/kernels/intsgd/intsgd_simd.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "compress/kernels/dither-inl.h"
#include "compress/kernels/run-inl.h"

#if GW_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace gradwire {
namespace HWY_NAMESPACE {
namespace {

using DI8 = hn::Rebind<int8_t, DF>;

template <DType kType>
HWY_INLINE void StoreIntegers(VI q, int64_t i, std::byte* out) {
  if constexpr (kType == DType::kInt8) {
    hn::StoreU(hn::DemoteTo(DI8(), q), DI8(), reinterpret_cast<int8_t*>(out) + i);
  } else {
    StoreWords(hn::BitCast(DU(), q), out + 4 * i);
  }
}

template <DType kType>
HWY_INLINE VI LoadIntegers(const std::byte* in, int64_t i) {
  if constexpr (kType == DType::kInt8) {
    return hn::PromoteTo(DI(), hn::LoadU(DI8(), reinterpret_cast<const int8_t*>(in) + i));
  } else {
    return hn::BitCast(DI(), LoadWords(in + 4 * i));
  }
}

// A run of finite inputs `p`, the largest of them `absmax_bits`.
template <DType kType>
void EncodeFinite(const IntsgdShape& shape, const EncodeJob& job, const float* p,
                  uint32_t absmax_bits) {
  const DF df;
  const VF most = hn::Set(df, static_cast<float>(shape.most));
  const VF unit = hn::Set(df, shape.unit), inverse = hn::Set(df, shape.inverse_unit);
  alignas(64) uint16_t dither[kRunElems];
  alignas(64) float unread[kRunElems];
  FillDither(job.dither, job.dither.first_elem / kDitherGroupElems, dither);
  float* e_out = ResidualOut(job, 0, unread);
  SquareSums values(absmax_bits);
  VU largest_error = hn::Zero(DU());
  for (int64_t i = 0; i < kRunElems; i += kLanes) {
    const VF v = hn::Load(df, p + i);
    const VF x = hn::Min(hn::Max(hn::Mul(v, inverse), hn::Neg(most)), most);
    const VF below = hn::Floor(x);
    const VI fraction = hn::NearestInt(hn::Mul(hn::Sub(x, below), hn::Set(df, 65536.0f)));
    const VI random = hn::PromoteTo(DI(), hn::LoadU(DU16(), dither + i));
    const VI q = hn::Add(hn::ConvertTo(DI(), below), hn::ShiftRight<16>(hn::Add(fraction, random)));
    StoreIntegers<kType>(q, i, job.out);
    const VF error = hn::Sub(v, hn::Mul(hn::ConvertTo(df, q), unit));
    hn::StoreU(error, df, e_out + i);
    values.AddValue(v);
    largest_error = hn::Max(largest_error, hn::BitCast(DU(), hn::Abs(error)));
  }
  // Of a scale of their own: far above the values where one is rounded up to a large unit, as small
  // as they are where none is.
  SquareSums errors(hn::GetLane(hn::MaxOfLanes(DU(), largest_error)));
  for (int64_t i = 0; i < kRunElems; i += kLanes) errors.AddError(hn::LoadU(df, e_out + i));
  values.AddTo(job.stats);
  errors.AddTo(job.stats);
  NoteAbsmax(absmax_bits, job.stats);
}

void Encode(const IntsgdShape& shape, const EncodeJob& job) {
  const int64_t bytes = SizeOf(shape.type), whole = job.elems - job.elems % kRunElems;
  alignas(64) float p[kRunElems];
  for (int64_t first = 0; first < whole; first += kRunElems) {
    const EncodeJob run = job.Sub(first, kRunElems, first * bytes);
    const uint32_t absmax_bits = LoadRun(run, 0, p);
    if (absmax_bits >= kInfBits) {
      IntsgdEncodeRef(shape, run);
    } else if (shape.type == DType::kInt8) {
      EncodeFinite<DType::kInt8>(shape, run, p, absmax_bits);
    } else {
      EncodeFinite<DType::kInt32>(shape, run, p, absmax_bits);
    }
  }
  if (whole < job.elems) IntsgdEncodeRef(shape, job.Sub(whole, job.elems - whole, whole * bytes));
}

template <DType kType, class Emit>
bool DecodeRuns(const IntsgdShape& shape, const DecodeJob& job) {
  const DI di;
  const int64_t whole = job.elems - job.elems % kLanes;
  const Emit emit(job);
  const VF unit = hn::Set(DF(), shape.unit);
  VI least = hn::Zero(di), most = hn::Zero(di);
  for (int64_t i = 0; i < whole; i += kLanes) {
    const VI sum = LoadIntegers<kType>(job.payload, i);
    least = hn::Min(least, sum);
    most = hn::Max(most, sum);
    emit(hn::Mul(hn::ConvertTo(DF(), sum), unit), i);
  }
  const VI bound = hn::Set(di, shape.most_of_sum);
  const bool possible =
      hn::AllFalse(di, hn::Gt(most, bound)) && hn::AllFalse(di, hn::Lt(least, hn::Neg(bound)));
  return possible &&
         IntsgdDecodeRef(shape, job.Sub(whole, job.elems - whole, whole * SizeOf(kType)));
}

template <DType kType>
bool DecodeAs(const IntsgdShape& shape, const DecodeJob& job) {
  return StoreAs(job.dtype, [&]<typename Emit>() { return DecodeRuns<kType, Emit>(shape, job); });
}

bool Decode(const IntsgdShape& shape, const DecodeJob& job) {
  assert(job.to == DecodeTo::kStore);
  return shape.type == DType::kInt8 ? DecodeAs<DType::kInt8>(shape, job)
                                    : DecodeAs<DType::kInt32>(shape, job);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gradwire
HWY_AFTER_NAMESPACE();
#endif  // GW_SIMD_TARGET

#if HWY_ONCE
namespace gradwire {
namespace {

constexpr KernelTable<IntsgdKernels> kTable = {
    {IntsgdKernels{IntsgdEncodeRef, IntsgdDecodeRef},
     {HWY_CHOOSE_SSE4(Encode), HWY_CHOOSE_SSE4(Decode)},
     {HWY_CHOOSE_AVX2(Encode), HWY_CHOOSE_AVX2(Decode)},
     {HWY_CHOOSE_AVX3(Encode), HWY_CHOOSE_AVX3(Decode)}},
    [](const IntsgdKernels& k) { return k.encode != nullptr; }};

}  // namespace

const IntsgdKernels& ActiveIntsgdKernels() { return kTable.Active(); }

}  // namespace gradwire
#endif  // HWY_ONCE
