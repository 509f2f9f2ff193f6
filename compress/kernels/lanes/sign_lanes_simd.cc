// SIMD kernels of votes in packed lanes; sign_lanes_ref.cc says what they compute, byte for byte.
// Blocks that are not finite and the tail go to the reference.
#include <algorithm>
#include <cassert>

#include "compress/kernels/dispatch.h"
#include "compress/kernels/lanes/sign_lanes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress/kernels/lanes/sign_lanes_simd.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "compress/kernels/lanes/lanes-inl.h"

#if GW_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace gradwire {
namespace HWY_NAMESPACE {
namespace {

constexpr uint32_t kOneBits = 0x3F800000u;  // of 1.0f

// `size` with the sign of v, 0 where v is a zero.
HWY_INLINE VF SignTimes(VF size, VF v) {
  return hn::IfThenZeroElse(hn::Eq(v, hn::Zero(DF())), hn::CopySign(size, v));
}

// Votes of the elements of one block, for PackBlock.
struct Votes {
  const float* p;
  // The values may be far smaller than their errors, which are near 1: each has a scale of its own.
  SquareSums* values;
  SquareSums* errors;

  HWY_INLINE VU operator()(int64_t i) const {
    const DI di;
    const VF v = hn::Load(DF(), p + i);
    const VF vote = SignTimes(hn::Set(DF(), 1.0f), v);
    values->AddValue(v);
    errors->AddError(hn::Sub(v, vote));
    return hn::BitCast(DU(), hn::Add(hn::ConvertTo(di, vote), hn::Set(di, 1)));
  }
};

// A whole finite block. `p` holds its inputs, the largest of them `absmax_bits`.
void EncodeFinite(const SignLanes& shape, const EncodeJob& job, const float* p,
                  uint32_t absmax_bits) {
  const uint32_t no_rank = 0;
  hwy::CopyBytes<4>(&no_rank, job.out);
  SquareSums values(absmax_bits), errors(std::max(absmax_bits, kOneBits));
  PackBlock(shape.lanes, Votes{p, &values, &errors}, job.out + shape.lanes.head_bytes());
  values.AddTo(job.stats);
  errors.AddTo(job.stats);
  NoteAbsmax(absmax_bits, job.stats);
}

void SignEncode(const SignLanes& shape, const EncodeJob& job) {
  const int64_t whole = job.elems / shape.lanes.block;
  alignas(64) float p[kMaxLaneBlock];
  for (int64_t b = 0; b < whole; ++b) {
    const EncodeJob block = BlockOf(shape.lanes, job, b);
    const uint32_t absmax_bits = LoadInput<Prefetch::kNone>(block, 0, block.elems, p);
    if (absmax_bits < kInfBits) {
      EncodeFinite(shape, block, p, absmax_bits);
    } else {
      SignEncodeRef(shape, block);
    }
  }
  if (whole * shape.lanes.block == job.elems) return;
  SignEncodeRef(shape, BlockOf(shape.lanes, job, whole));
}

template <class Emit>
struct TakeVotes {
  const Emit& emit;
  VF ranks;
  VI tie;
  int64_t first;  // of the block

  HWY_INLINE void operator()(VI sum, int64_t i) const {
    emit(SignTimes(ranks, hn::ConvertTo(DF(), hn::Sub(sum, tie))), first + i);
  }
};

template <class Emit>
bool DecodeBlocks(const SignLanes& shape, const DecodeJob& job) {
  const int64_t whole = job.elems / shape.lanes.block;
  const Emit emit(job);
  const VI tie = hn::Set(DI(), shape.world_size);
  const VF ranks = hn::ConvertTo(DF(), tie);
  for (int64_t b = 0; b < whole; ++b) {
    const DecodeJob block = BlockOf(shape.lanes, job, b);
    uint32_t nonfinite_ranks;
    hwy::CopyBytes<4>(block.payload, &nonfinite_ranks);
    if (nonfinite_ranks > 0) {
      if (!SignDecodeRef(shape, block)) return false;
      continue;
    }
    const TakeVotes<Emit> take = {emit, ranks, tie, b * shape.lanes.block};
    if (!UnpackBlock(shape.lanes, block.payload + shape.lanes.head_bytes(), shape.largest_sum(),
                     take)) {
      return false;
    }
  }
  if (whole * shape.lanes.block == job.elems) return true;
  return SignDecodeRef(shape, BlockOf(shape.lanes, job, whole));
}

bool SignDecode(const SignLanes& shape, const DecodeJob& job) {
  assert(job.to == DecodeTo::kStore);
  return StoreAs(job.dtype, [&]<typename Emit>() { return DecodeBlocks<Emit>(shape, job); });
}

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace gradwire
HWY_AFTER_NAMESPACE();
#endif  // GW_SIMD_TARGET

#if HWY_ONCE
namespace gradwire {
namespace {

constexpr KernelTable<SignLaneKernels> kTable = {
    {SignLaneKernels{SignEncodeRef, SignDecodeRef},
     {HWY_CHOOSE_SSE4(SignEncode), HWY_CHOOSE_SSE4(SignDecode)},
     {HWY_CHOOSE_AVX2(SignEncode), HWY_CHOOSE_AVX2(SignDecode)},
     {HWY_CHOOSE_AVX3(SignEncode), HWY_CHOOSE_AVX3(SignDecode)}},
    [](const SignLaneKernels& k) { return k.encode != nullptr; }};

}  // namespace

const SignLaneKernels& ActiveSignLaneKernels() { return kTable.Active(); }

}  // namespace gradwire
#endif  // HWY_ONCE
