// SIMD kernels of levels in packed lanes; level_lanes_ref.cc says what they compute, byte for byte.
// Rare blocks (non-finite, extreme magnitudes) and the tail go to the reference.
#include <cassert>
#include <cstring>

#include "compress/kernels/dispatch.h"
#include "compress/kernels/lanes/level_lanes.h"
#include "compress/kernels/qsgd/qsgd_scale.h"
#include "compress/kernels/sum_lanes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress/kernels/lanes/level_lanes_simd.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "compress/kernels/dither-inl.h"
#include "compress/kernels/lanes/lanes-inl.h"

#if GW_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace gradwire {
namespace HWY_NAMESPACE {
namespace {

bool IsPlain(uint32_t bits) { return bits >= kPlainBegin && bits < kPlainEnd; }
// Of a block that has no levels.
bool IsZero(uint32_t bits) { return bits < kMinNormalBits; }

float RootMeanSquare(const float* p, int64_t elems, uint32_t absmax_bits) {
  const DF df;
  const LevelNorm norm = MakeLevelNorm(absmax_bits);
  const VF scale = hn::Set(df, norm.scale);
  alignas(64) float lanes[16] = {};
  for (int64_t lane = 0; lane < 16; lane += kLanes) {
    VF sum = hn::Zero(df);
    for (int64_t i = lane; i < elems; i += 16) {
      const VF x = hn::Mul(hn::Load(df, p + i), scale);
      sum = hn::Add(sum, hn::Mul(x, x));  // no MulAdd: the sum reaches the wire
    }
    hn::Store(sum, df, lanes + lane);
  }
  const auto one = hn::CappedTag<float, 1>();
  const float mean = SumLanes(lanes) / static_cast<float>(elems);
  return hn::GetLane(hn::Sqrt(hn::Set(one, mean))) * norm.unscale;
}

uint32_t Clipped(const LevelLanes& shape, const float* p, uint32_t absmax_bits) {
  const float bound = shape.clip * RootMeanSquare(p, shape.lanes.block, absmax_bits);
  uint32_t bits;
  hwy::CopyBytes<4>(&bound, &bits);
  return bits < absmax_bits ? bits : absmax_bits;
}

void LevelMagnitudes(const LevelLanes& shape, const InputJob& job, uint32_t* magnitudes) {
  const int64_t block = shape.lanes.block;
  const int64_t whole = job.elems - job.elems % block;
  alignas(64) float p[kMaxLaneBlock];
  for (int64_t first = 0; first < whole; first += block) {
    const uint32_t bits = LoadInput<Prefetch::kNone>(job, first, block, p);
    const bool clips = shape.clip != 0 && bits < kInfBits && bits >= kMinNormalBits;
    *magnitudes++ = clips ? Clipped(shape, p, bits) : bits;
  }
  LevelMagnitudesRef(shape, job.Sub(whole, job.elems - whole), magnitudes);
}

// --- encoding -----------------------------------------------------------------------------------

struct Quantizer {
  VF bound, inverse, unit;
  VI bias;

  template <Rounding kRounding>
  HWY_INLINE VI Level(VF p, const uint16_t* dither) const {
    const VF clipped = hn::Min(hn::Max(p, hn::Neg(bound)), bound);
    const VI rounded = hn::NearestInt(hn::Mul(clipped, inverse));
    if constexpr (kRounding == Rounding::kNearest) return rounded;
    const VI random = hn::PromoteTo(DI(), hn::LoadU(DU16(), dither));
    return hn::ShiftRight<16>(hn::Add(rounded, random));
  }
};

// Quantizes elements of one block, for PackBlock.
template <Rounding kRounding>
struct LevelFields {
  const Quantizer& q;
  const float* p;
  const uint16_t* dither;
  float* e_out;
  SquareSums* sums;

  HWY_INLINE VU operator()(int64_t i) const {
    const DF df;
    const VF v = hn::Load(df, p + i);
    const VI level = q.Level<kRounding>(v, dither + i);
    const VF error = hn::Sub(v, hn::Mul(hn::ConvertTo(df, level), q.unit));
    hn::StoreU(error, df, e_out + i);
    sums->Add(v, error);
    return hn::BitCast(DU(), hn::Add(level, q.bias));
  }
};

// A whole block whose agreed magnitude is plain. `p` holds its inputs, the largest of them
// `own_bits`.
template <Rounding kRounding>
void EncodePlain(const LevelLanes& shape, const EncodeJob& job, uint32_t agreed, uint32_t own_bits,
                 const float* p) {
  const QsgdScale s = MakeQsgdScale(shape.levels, agreed);
  const Quantizer q = {hn::Set(DF(), s.scale), hn::Set(DF(), s.inverse), hn::Set(DF(), s.unit),
                       hn::Set(DI(), shape.bias())};
  alignas(64) uint16_t dither[kMaxLaneBlock];
  alignas(64) float unread[kMaxLaneBlock];
  if constexpr (kRounding == Rounding::kStochastic) {
    FillDither(job.dither, job.dither.first_elem / kDitherGroupElems, shape.lanes.block, dither);
  }
  SquareSums sums(own_bits);
  const LevelFields<kRounding> fields = {q, p, dither, ResidualOut(job, 0, unread), &sums};
  PackBlock(shape.lanes, fields, job.out);
  sums.AddTo(job.stats);
  NoteAbsmax(own_bits, job.stats);
}

// A whole block of zeros of this rank: their levels are 0 under any magnitude, and they stay, with
// their signs. Embeddings have many such blocks.
void EncodeZero(const LevelLanes& shape, const EncodeJob& job, const float* p) {
  const VU bias = hn::Set(DU(), static_cast<uint32_t>(shape.bias()));
  PackBlock(
      shape.lanes, [&](int64_t) { return bias; }, job.out);
  if (job.e_out != nullptr) std::memcpy(job.e_out, p, static_cast<size_t>(4 * job.elems));
}

void LevelEncode(const LevelLanes& shape, const EncodeJob& job, const uint32_t* agreed) {
  const int64_t whole = job.elems / shape.lanes.block;
  alignas(64) float p[kMaxLaneBlock];
  for (int64_t b = 0; b < whole; ++b) {
    const EncodeJob block = BlockOf(shape.lanes, job, b);
    const uint32_t own_bits = LoadInput<Prefetch::kAhead>(block, 0, block.elems, p);
    if (own_bits == 0 && agreed[b] < kInfBits) {
      EncodeZero(shape, block, p);
    } else if (!IsPlain(agreed[b]) || own_bits >= kPlainEnd) {
      LevelEncodeRef(shape, block, agreed + b);
    } else if (shape.levels.rounding == Rounding::kStochastic) {
      EncodePlain<Rounding::kStochastic>(shape, block, agreed[b], own_bits, p);
    } else {
      EncodePlain<Rounding::kNearest>(shape, block, agreed[b], own_bits, p);
    }
  }
  if (whole * shape.lanes.block == job.elems) return;
  LevelEncodeRef(shape, BlockOf(shape.lanes, job, whole), agreed + whole);
}

// --- decoding -----------------------------------------------------------------------------------

template <class Emit>
struct TakeLevels {
  const Emit& emit;
  VF unit;
  VI bias;
  int64_t first;  // of the block

  HWY_INLINE void operator()(VI sum, int64_t i) const {
    emit(hn::Mul(hn::ConvertTo(DF(), hn::Sub(sum, bias)), unit), first + i);
  }
};

template <class Emit>
bool DecodeBlocks(const LevelLanes& shape, const DecodeJob& job, const uint32_t* agreed) {
  const int64_t whole = job.elems / shape.lanes.block;
  const Emit emit(job);
  const VI bias = hn::Set(DI(), shape.world_size * shape.bias());
  for (int64_t b = 0; b < whole; ++b) {
    const int64_t first = b * shape.lanes.block;
    if (!IsPlain(agreed[b]) && !IsZero(agreed[b])) {
      if (!LevelDecodeRef(shape, BlockOf(shape.lanes, job, b), agreed + b)) return false;
      continue;
    }
    const float unit = IsZero(agreed[b]) ? 0 : MakeQsgdScale(shape.levels, agreed[b]).unit;
    const std::byte* in = job.payload + 4 * shape.lanes.words(first);
    const TakeLevels<Emit> take = {emit, hn::Set(DF(), unit), bias, first};
    if (!UnpackBlock(shape.lanes, in, shape.largest_sum(), take)) return false;
  }
  if (whole * shape.lanes.block == job.elems) return true;
  return LevelDecodeRef(shape, BlockOf(shape.lanes, job, whole), agreed + whole);
}

bool LevelDecode(const LevelLanes& shape, const DecodeJob& job, const uint32_t* agreed) {
  assert(job.to == DecodeTo::kStore);
  return StoreAs(job.dtype,
                 [&]<typename Emit>() { return DecodeBlocks<Emit>(shape, job, agreed); });
}

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace gradwire
HWY_AFTER_NAMESPACE();
#endif  // GW_SIMD_TARGET

#if HWY_ONCE
namespace gradwire {
namespace {

constexpr KernelTable<LevelLaneKernels> kTable = {
    {LevelLaneKernels{LevelMagnitudesRef, LevelEncodeRef, LevelDecodeRef},
     {HWY_CHOOSE_SSE4(LevelMagnitudes), HWY_CHOOSE_SSE4(LevelEncode), HWY_CHOOSE_SSE4(LevelDecode)},
     {HWY_CHOOSE_AVX2(LevelMagnitudes), HWY_CHOOSE_AVX2(LevelEncode), HWY_CHOOSE_AVX2(LevelDecode)},
     {HWY_CHOOSE_AVX3(LevelMagnitudes), HWY_CHOOSE_AVX3(LevelEncode),
      HWY_CHOOSE_AVX3(LevelDecode)}},
    [](const LevelLaneKernels& k) { return k.encode != nullptr; }};

}  // namespace

const LevelLaneKernels& ActiveLevelLaneKernels() { return kTable.Active(); }

}  // namespace gradwire
#endif  // HWY_ONCE
