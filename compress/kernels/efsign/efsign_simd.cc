// SIMD kernels of codec `efsign`; efsign_ref.cc says what they compute, byte for byte.
#include <cstring>

#include "compress/kernels/dispatch.h"
#include "compress/kernels/efsign/efsign_kernels.h"
#include "compress/kernels/sum_lanes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress/kernels/efsign/efsign_simd.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "compress/kernels/run-inl.h"

#if GW_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace gradwire {
namespace HWY_NAMESPACE {
namespace {

// The l1 mean of a run, summed as SumLanes says.
float MeanMagnitude(const float* p) {
  const DF df;
  alignas(64) float lanes[16];
  for (int64_t lane = 0; lane < 16; lane += kLanes) {
    VF sum = hn::Zero(df);
    for (int64_t j = 0; j < kRunElems; j += 16) {
      sum = hn::Add(sum, hn::Abs(hn::Load(df, p + j + lane)));
    }
    hn::Store(sum, df, lanes + lane);
  }
  return SumLanes(lanes) / static_cast<float>(kRunElems);
}

void EncodePlain(const EncodeJob& job, uint32_t absmax_bits, const float* p) {
  const DF df;
  const float scale = MeanMagnitude(p);
  hwy::CopyBytes<4>(&scale, job.out);
  const VF plus = hn::Set(df, scale);
  const VF minus = hn::Neg(plus);
  alignas(64) float errors[kRunElems];
  const bool streams = StreamsResidual(job);
  float* e_out = streams ? errors : ResidualOut(job, 0, errors);
  SquareSums sums(absmax_bits);
  for (int64_t k = 0; k < kRunElems; k += 32) {
    uint32_t word = 0;
    for (int64_t lane = 0; lane < 32; lane += kLanes) {
      const VF v = hn::Load(df, p + k + lane);
      const auto negative = hn::Lt(v, hn::Zero(df));
      const VF error = hn::Sub(v, hn::IfThenElse(negative, minus, plus));
      hn::StoreU(error, df, e_out + k + lane);
      sums.Add(v, error);
      word |= BitsOf(hn::RebindMask(DU(), negative)) << lane;
    }
    hwy::CopyBytes<4>(&word, job.out + 4 + k / 8);
  }
  if (streams) StoreResidual(job, 0, errors);
  sums.AddTo(job.stats);
  NoteAbsmax(absmax_bits, job.stats);
}

void EncodeZero(const EncodeJob& job, const float* p) {
  std::memset(job.out, 0, static_cast<size_t>(kEfsignBlockBytes));
  StoreResidual(job, 0, p);
}

void EfsignEncode(const EncodeJob& job) {
  const int64_t whole = job.elems - job.elems % kRunElems;
  alignas(64) float p[kRunElems];
  for (int64_t first = 0; first < whole; first += kRunElems) {
    const EncodeJob block = job.Sub(first, kRunElems, first / kRunElems * kEfsignBlockBytes);
    const uint32_t absmax_bits = LoadRun(block, 0, p);
    if (absmax_bits >= kPlainBegin && absmax_bits < kPlainEnd) {
      EncodePlain(block, absmax_bits, p);
    } else if (absmax_bits == 0) {
      EncodeZero(block, p);
    } else {
      EfsignEncodeRef(block);
    }
  }
  if (StreamsResidual(job)) hwy::FlushStream();
  if (whole == job.elems) return;
  EfsignEncodeRef(job.Sub(whole, job.elems - whole, whole / kRunElems * kEfsignBlockBytes));
}

template <class Emit>
bool DecodeBlocks(const DecodeJob& job) {
  const DF df;
  const int64_t whole = job.elems - job.elems % kRunElems;
  const Emit emit(job);
  const std::byte* in = job.payload;
  for (int64_t first = 0; first < whole; first += kRunElems, in += kEfsignBlockBytes) {
    uint32_t scale_bits;
    hwy::CopyBytes<4>(in, &scale_bits);
    if (scale_bits == 0 && !AllZero(in, kEfsignBlockBytes)) return false;
    if (!IsEfsignScale(scale_bits)) {
      if (!EfsignDecodeRef(job.Sub(first, kRunElems, in - job.payload))) return false;
      continue;
    }
    const VF plus = hn::BitCast(df, hn::Set(DU(), scale_bits));
    const VF minus = hn::Neg(plus);
    for (int64_t k = 0; k < kRunElems; k += 32) {
      uint32_t word;
      hwy::CopyBytes<4>(in + 4 + k / 8, &word);
      for (int64_t lane = 0; lane < 32; lane += kLanes) {
        const auto negative = hn::RebindMask(df, MaskOfBits(word, lane));
        emit(hn::IfThenElse(negative, minus, plus), first + k + lane);
      }
    }
  }
  if (whole == job.elems) return true;
  return EfsignDecodeRef(job.Sub(whole, job.elems - whole, in - job.payload));
}

bool EfsignDecode(const DecodeJob& job) {
  if (job.to == DecodeTo::kAdd) return DecodeBlocks<EmitAdd>(job);
  return StoreAs(job.dtype, [&]<typename Emit>() { return DecodeBlocks<Emit>(job); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gradwire
HWY_AFTER_NAMESPACE();
#endif  // GW_SIMD_TARGET

#if HWY_ONCE
namespace gradwire {
namespace {

constexpr KernelTable<EfsignKernels> kTable = {
    {EfsignKernels{EfsignEncodeRef, EfsignDecodeRef},
     {HWY_CHOOSE_SSE4(EfsignEncode), HWY_CHOOSE_SSE4(EfsignDecode)},
     {HWY_CHOOSE_AVX2(EfsignEncode), HWY_CHOOSE_AVX2(EfsignDecode)},
     {HWY_CHOOSE_AVX3(EfsignEncode), HWY_CHOOSE_AVX3(EfsignDecode)}},
    [](const EfsignKernels& k) { return k.encode != nullptr; }};

}  // namespace

const EfsignKernels& ActiveEfsignKernels() { return kTable.Active(); }

}  // namespace gradwire
#endif  // HWY_ONCE
