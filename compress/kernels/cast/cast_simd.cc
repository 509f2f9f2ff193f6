// SIMD kernels of the casting codecs; cast_ref.cc says what they compute, byte for byte.
#include "compress/kernels/cast/cast_kernels.h"
#include "compress/kernels/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress/kernels/cast/cast_simd.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "compress/kernels/run-inl.h"

#if GW_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace gradwire {
namespace HWY_NAMESPACE {
namespace {

// Inputs below these magnitudes stay finite in the wire type.
template <DType kWire>
constexpr uint32_t FiniteEnd() {
  if (kWire == DType::kFloat16) return 0x477FF000u;   // 65520
  if (kWire == DType::kBfloat16) return 0x7F7F8000u;  // (2 - 2^-8) * 2^127
  return kInfBits;
}

template <DType kWire>
void EncodeRun(const EncodeJob& job, uint32_t absmax_bits, const float* p) {
  const DF df;
  alignas(64) float errors[kRunElems];
  const bool streams = StreamsResidual(job);
  float* e_out = streams ? errors : ResidualOut(job, 0, errors);
  SquareSums sums(absmax_bits);
  for (int64_t i = 0; i < kRunElems; i += kLanes) {
    const VF v = hn::Load(df, p + i);
    const VF decoded = StoreFloats<kWire>(v, job.out + i * SizeOf(kWire));
    const VF error = hn::Sub(v, decoded);
    hn::StoreU(error, df, e_out + i);
    sums.Add(v, error);
  }
  if (streams) StoreResidual(job, 0, errors);
  sums.AddTo(job.stats);
  NoteAbsmax(absmax_bits, job.stats);
}

template <DType kWire>
void EncodeAs(const EncodeJob& job) {
  const int64_t whole = job.elems - job.elems % kRunElems;
  alignas(64) float p[kRunElems];
  for (int64_t first = 0; first < whole; first += kRunElems) {
    const EncodeJob run = job.Sub(first, kRunElems, first * SizeOf(kWire));
    const uint32_t absmax_bits = LoadRun(run, 0, p);
    if (absmax_bits < FiniteEnd<kWire>()) {
      EncodeRun<kWire>(run, absmax_bits, p);
    } else {
      CastEncodeRef(kWire, run);
    }
  }
  if (StreamsResidual(job)) hwy::FlushStream();
  if (whole < job.elems) {
    CastEncodeRef(kWire, job.Sub(whole, job.elems - whole, whole * SizeOf(kWire)));
  }
}

void CastEncode(DType wire, const EncodeJob& job) {
  if (wire == DType::kFloat32) return EncodeAs<DType::kFloat32>(job);
  if (wire == DType::kFloat16) return EncodeAs<DType::kFloat16>(job);
  EncodeAs<DType::kBfloat16>(job);
}

template <DType kWire, class Emit>
void DecodeRuns(const DecodeJob& job) {
  const int64_t whole = job.elems - job.elems % kLanes;
  const Emit emit(job);
  for (int64_t i = 0; i < whole; i += kLanes) {
    PrefetchAhead(job.payload + i * SizeOf(kWire));
    emit(LoadFloats<kWire>(job.payload + i * SizeOf(kWire)), i);
  }
  if (whole < job.elems) {
    CastDecodeRef(kWire, job.Sub(whole, job.elems - whole, whole * SizeOf(kWire)));
  }
}

template <DType kWire>
void DecodeAs(const DecodeJob& job) {
  if (job.to == DecodeTo::kAdd) return DecodeRuns<kWire, EmitAdd>(job);
  if (job.dtype == DType::kFloat16) return DecodeRuns<kWire, EmitStore<DType::kFloat16>>(job);
  if (job.dtype == DType::kBfloat16) return DecodeRuns<kWire, EmitStore<DType::kBfloat16>>(job);
  DecodeRuns<kWire, EmitStore<DType::kFloat32>>(job);
}

void CastDecode(DType wire, const DecodeJob& job) {
  if (wire == DType::kFloat32) return DecodeAs<DType::kFloat32>(job);
  if (wire == DType::kFloat16) return DecodeAs<DType::kFloat16>(job);
  DecodeAs<DType::kBfloat16>(job);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gradwire
HWY_AFTER_NAMESPACE();
#endif  // GW_SIMD_TARGET

#if HWY_ONCE
namespace gradwire {
namespace {

constexpr KernelTable<CastKernels> kTable = {
    {CastKernels{CastEncodeRef, CastDecodeRef},
     {HWY_CHOOSE_SSE4(CastEncode), HWY_CHOOSE_SSE4(CastDecode)},
     {HWY_CHOOSE_AVX2(CastEncode), HWY_CHOOSE_AVX2(CastDecode)},
     {HWY_CHOOSE_AVX3(CastEncode), HWY_CHOOSE_AVX3(CastDecode)}},
    [](const CastKernels& k) { return k.encode != nullptr; }};

}  // namespace

const CastKernels& ActiveCastKernels() { return kTable.Active(); }

}  // namespace gradwire
#endif  // HWY_ONCE
