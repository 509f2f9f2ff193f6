// The vectors of all SIMD kernels, once per Highway target: words, floats of 32 and 16 bits,
// strings of bits. Conversions give the bits of base/float16.h.
//
// Include after hwy/foreach_target.h. Code between the guards of GW_SIMD_TARGET is compiled for the
// targets of compress/kernels/dispatch.h only; Highway's scalar and emulated targets are left out,
// the reference stands in for them.
#include "compress/kernels/kernel_job.h"

#if defined(GRADWIRE_COMPRESS_KERNELS_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADWIRE_COMPRESS_KERNELS_VECTORS_INL_H_
#undef GRADWIRE_COMPRESS_KERNELS_VECTORS_INL_H_
#else
#define GRADWIRE_COMPRESS_KERNELS_VECTORS_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#undef GW_SIMD_TARGET
#define GW_SIMD_TARGET (HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3)

#if GW_SIMD_TARGET

HWY_BEFORE_NAMESPACE();
namespace gradwire {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// 16 lanes at most: one word of a vertically packed group per lane.
using DF = hn::CappedTag<float, 16>;
using DI = hn::RebindToSigned<DF>;
using DU = hn::RebindToUnsigned<DF>;
using DU16 = hn::Rebind<uint16_t, DF>;
using DU64 = hn::Repartition<uint64_t, DF>;
using DBytes = hn::Repartition<uint8_t, DF>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
using VU = hn::Vec<DU>;
using VU64 = hn::Vec<DU64>;

inline constexpr int64_t kLanes = hn::MaxLanes(DF());
static_assert(kRunElems % kLanes == 0);

// The hardware streamer stops at 4 KiB pages; this distance was the best of 1..4 KiB.
inline constexpr int64_t kPrefetchBytes = 2048;

HWY_INLINE void PrefetchAhead(const void* p) {
  // Computed as an integer: it may point behind the array, which a prefetch may.
  hwy::Prefetch(reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(p) + kPrefetchBytes));
}

// 32-bit words at any alignment.
HWY_INLINE VU LoadWords(const std::byte* from) {
  return hn::BitCast(DU(), hn::LoadU(DBytes(), reinterpret_cast<const uint8_t*>(from)));
}

HWY_INLINE void StoreWords(VU words, std::byte* to) {
  hn::StoreU(hn::BitCast(DBytes(), words), DBytes(), reinterpret_cast<uint8_t*>(to));
}

// --- 16-bit floats ------------------------------------------------------------------------------

// A half in each 32-bit lane.
HWY_INLINE VU LoadHalves(const std::byte* from) {
  return hn::PromoteTo(DU(), hn::LoadU(DU16(), reinterpret_cast<const uint16_t*>(from)));
}

HWY_INLINE void StoreHalves(VU halves, std::byte* to) {
  const auto narrow = hn::DemoteTo(DU16(), hn::BitCast(DI(), halves));
  hn::StoreU(narrow, DU16(), reinterpret_cast<uint16_t*>(to));
}

HWY_INLINE VF WidenBf16(VU half) { return hn::BitCast(DF(), hn::ShiftLeft<16>(half)); }

// To nearest, ties to even. A NaN must have the bits kNanBits.
HWY_INLINE VU NarrowBf16(VF v) {
  const DU du;
  const VU bits = hn::BitCast(du, v);
  const VU odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  return hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(du, 0x7FFFu)), odd));
}

#if HWY_TARGET == HWY_SSE4

HWY_INLINE VF WidenFp16(VU half) {
  const DU du;
  const DF df;
  const VU sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(du, 0x8000u)));
  const VU magnitude = hn::And(half, hn::Set(du, 0x7FFFu));
  const VU rebias = hn::Set(du, 112u << 23);
  VU bits = hn::Add(hn::ShiftLeft<13>(magnitude), rebias);
  // Infinity and NaN: the exponent must become 255, a second re-bias away.
  bits = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x7BFFu)), hn::Add(bits, rebias), bits);
  // Subnormals count units of 2^-24; the product is exact and never subnormal in fp32.
  const VF small = hn::Mul(hn::ConvertTo(df, hn::BitCast(DI(), magnitude)), hn::Set(df, 0x1p-24f));
  bits = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, 0x0400u)), hn::BitCast(du, small), bits);
  return hn::BitCast(df, hn::Or(sign, bits));
}

HWY_INLINE VU NarrowFp16(VF v) {
  const DU du;
  const VU bits = hn::BitCast(du, v);
  const VU sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000u));
  const VU magnitude = hn::And(bits, hn::Set(du, 0x7FFFFFFFu));
  const VU odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1u));
  const VU rounded = hn::Add(hn::Sub(magnitude, hn::Set(du, (112u << 23) - 0x0FFFu)), odd);
  VU out = hn::ShiftRight<13>(rounded);
  // Below 2^-14: adding 0.5 makes the addition round to units of 2^-24, ties to even.
  const VF half = hn::Set(DF(), 0.5f);
  const VU small =
      hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(DF(), magnitude), half)), hn::BitCast(du, half));
  out = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, 0x38800000u)), small, out);
  out = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x477FFFFFu)), hn::Set(du, 0x7C00u), out);
  out = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, kInfBits)), hn::Set(du, 0x7E00u), out);
  return hn::Or(sign, out);
}

HWY_INLINE VF LoadFp16(const std::byte* from) { return WidenFp16(LoadHalves(from)); }

HWY_INLINE VF StoreFp16(VF v, std::byte* to) {
  const VU narrow = NarrowFp16(v);
  StoreHalves(narrow, to);
  return WidenFp16(narrow);
}

#else  // F16C, which dispatch.cc asks for: the same bits, whatever modes are set

using DF16 = hn::Rebind<hwy::float16_t, DF>;

HWY_INLINE VF LoadFp16(const std::byte* from) {
  return hn::PromoteTo(DF(), hn::LoadU(DF16(), reinterpret_cast<const hwy::float16_t*>(from)));
}

HWY_INLINE VF StoreFp16(VF v, std::byte* to) {
  const auto narrow = hn::DemoteTo(DF16(), v);
  hn::StoreU(narrow, DF16(), reinterpret_cast<hwy::float16_t*>(to));
  return hn::PromoteTo(DF(), narrow);
}

#endif

HWY_INLINE VF StoreBf16(VF v, std::byte* to) {
  const VU narrow = NarrowBf16(v);
  StoreHalves(narrow, to);
  return WidenBf16(narrow);
}

// Elements of a type of floats, at any alignment.
template <DType kType>
HWY_INLINE VF LoadFloats(const std::byte* from) {
  if constexpr (kType == DType::kFloat16) return LoadFp16(from);
  if constexpr (kType == DType::kBfloat16) return WidenBf16(LoadHalves(from));
  return hn::BitCast(DF(), LoadWords(from));
}

// Returns what LoadFloats will read. A NaN must have the bits kNanBits.
template <DType kType>
HWY_INLINE VF StoreFloats(VF v, std::byte* to) {
  if constexpr (kType == DType::kFloat16) return StoreFp16(v, to);
  if constexpr (kType == DType::kBfloat16) return StoreBf16(v, to);
  StoreWords(hn::BitCast(DU(), v), to);
  return v;
}

// --- bit strings --------------------------------------------------------------------------------

// The lanes of a mask as the low kLanes bits.
template <class Mask>
HWY_INLINE uint32_t BitsOf(Mask mask) {
  uint8_t bytes[8] = {};
  hn::StoreMaskBits(DU(), mask, bytes);
  uint32_t bits;
  hwy::CopyBytes<4>(bytes, &bits);
  return bits;
}

// All ones in lanes whose bit (lane + shift) of `word` is set.
HWY_INLINE auto MaskOfBits(uint32_t word, int64_t shift) {
  const DU du;
  const VU bit = hn::BitCast(du, hn::Shl(hn::Set(du, 1u), hn::Iota(du, 0)));
  return hn::TestBit(hn::Set(du, word >> shift), bit);
}

}  // namespace HWY_NAMESPACE
}  // namespace gradwire
HWY_AFTER_NAMESPACE();

#endif  // GW_SIMD_TARGET
#endif  // include guard per target
