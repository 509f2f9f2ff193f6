// What the SIMD kernels share, once per Highway target: loading a run of 256 elements into
// first-level cache, dither bits, bit strings, writing floats and decoded elements. It gives the
// bits of scalar_ref.h.
//
// Include after hwy/foreach_target.h. Code between the guards of GW_SIMD_TARGET is compiled for the
// targets of compress/kernels/dispatch.h only; Highway's scalar and emulated targets are left out,
// the reference stands in for them.
#include "compress/kernels/kernel_job.h"

#if defined(GRADWIRE_COMPRESS_KERNELS_RUN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADWIRE_COMPRESS_KERNELS_RUN_INL_H_
#undef GRADWIRE_COMPRESS_KERNELS_RUN_INL_H_
#else
#define GRADWIRE_COMPRESS_KERNELS_RUN_INL_H_
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

// --- input --------------------------------------------------------------------------------------

// Who fetches the input from memory. kAhead: we, kPrefetchBytes early, because stores between the
// runs upset the processor's own prefetcher. kNone: it alone, where there are few stores; asking as
// well cost a third of the bandwidth on AMD's Zen 4.
enum class Prefetch : uint8_t { kAhead, kNone };

template <DType kType, bool kHasResidual, Prefetch kPrefetch>
HWY_INLINE uint32_t LoadInputAs(const EncodeJob& job, int64_t first, int64_t elems,
                                float* HWY_RESTRICT p) {
  const DF df;
  const DU du;
  const std::byte* grad = job.grad + first * SizeOf(kType);
  const VF in_scale = hn::Set(df, job.in_scale);
  const VU magnitude = hn::Set(du, 0x7FFFFFFFu);
  VU absmax = hn::Zero(du);
  for (int64_t i = 0; i < elems; i += kLanes) {
    if constexpr (kPrefetch == Prefetch::kAhead) PrefetchAhead(grad + i * SizeOf(kType));
    VF v = hn::Mul(LoadFloats<kType>(grad + i * SizeOf(kType)), in_scale);
    if constexpr (kHasResidual) {
      if constexpr (kPrefetch == Prefetch::kAhead) PrefetchAhead(job.e_in + first + i);
      v = hn::Add(v, hn::LoadU(df, job.e_in + first + i));
    }
    hn::Store(v, df, p + i);
    absmax = hn::Max(absmax, hn::And(hn::BitCast(du, v), magnitude));
  }
  return hn::GetLane(hn::MaxOfLanes(du, absmax));
}

// p[0..elems) = input of elements first.. (64-byte aligned); elems is a multiple of 16. Returns the
// bits of the largest |p|: at or above kInfBits where one is not finite.
template <Prefetch kPrefetch>
HWY_INLINE uint32_t LoadInput(const EncodeJob& job, int64_t first, int64_t elems,
                              float* HWY_RESTRICT p) {
  const bool residual = job.e_in != nullptr;
  switch (job.dtype) {
    case DType::kFloat16:
      return residual ? LoadInputAs<DType::kFloat16, true, kPrefetch>(job, first, elems, p)
                      : LoadInputAs<DType::kFloat16, false, kPrefetch>(job, first, elems, p);
    case DType::kBfloat16:
      return residual ? LoadInputAs<DType::kBfloat16, true, kPrefetch>(job, first, elems, p)
                      : LoadInputAs<DType::kBfloat16, false, kPrefetch>(job, first, elems, p);
    default:
      return residual ? LoadInputAs<DType::kFloat32, true, kPrefetch>(job, first, elems, p)
                      : LoadInputAs<DType::kFloat32, false, kPrefetch>(job, first, elems, p);
  }
}

template <Prefetch kPrefetch = Prefetch::kAhead>
inline uint32_t LoadRun(const EncodeJob& job, int64_t first, float* HWY_RESTRICT p) {
  return LoadInput<kPrefetch>(job, first, kRunElems, p);
}

// --- statistics ---------------------------------------------------------------------------------

// Sums of squares in fp32 lanes, of values first scaled near 1 so that nothing overflows or is
// lost.
struct SquareSums {
  VF p2 = hn::Zero(DF());
  VF err2 = hn::Zero(DF());
  VF norm;
  double unscale;

  explicit HWY_INLINE SquareSums(uint32_t absmax_bits) {
    const auto exponent = static_cast<int>(absmax_bits >> 23);  // biased by 127
    const int clamped = exponent < 27 ? 27 : (exponent > 227 ? 227 : exponent);
    norm = hn::BitCast(DF(), hn::Set(DU(), static_cast<uint32_t>(254 - clamped) << 23));
    const auto wide = static_cast<uint64_t>(1023 + 2 * (clamped - 127)) << 52;
    hwy::CopyBytes<8>(&wide, &unscale);
  }

  HWY_INLINE void AddValue(VF p) {
    const VF a = hn::Mul(p, norm);
    p2 = hn::MulAdd(a, a, p2);
  }

  HWY_INLINE void AddError(VF error) {
    const VF a = hn::Mul(error, norm);
    err2 = hn::MulAdd(a, a, err2);
  }

  HWY_INLINE void Add(VF p, VF error) {
    AddValue(p);
    AddError(error);
  }

  HWY_INLINE void AddTo(EncodeStats* stats) const {
    const DF df;
    stats->sum_p2 += static_cast<double>(hn::GetLane(hn::SumOfLanes(df, p2))) * unscale;
    stats->sum_err2 += static_cast<double>(hn::GetLane(hn::SumOfLanes(df, err2))) * unscale;
  }
};

HWY_INLINE void NoteAbsmax(uint32_t absmax_bits, EncodeStats* stats) {
  float absmax;
  hwy::CopyBytes<4>(&absmax_bits, &absmax);
  if (absmax > stats->absmax) stats->absmax = absmax;
}

// --- residuals ----------------------------------------------------------------------------------

// From here on an array that is only written would come into the cache for nothing, and drive out
// what is used next.
inline constexpr int64_t kStreamElems = int64_t{1} << 20;

struct StoreCached {
  HWY_INLINE void operator()(VF v, float* to) const { hn::StoreU(v, DF(), to); }
};

struct StoreStreamed {  // `to` must be aligned
  HWY_INLINE void operator()(VF v, float* to) const { hn::Stream(v, DF(), to); }
};

// Whether a residual goes past the caches: into an array of its own, which nobody reads before the
// next step, of a tensor that would not stay in them till then. FlushStream once all is written.
HWY_INLINE bool StreamsResidual(const EncodeJob& job) {
  return job.e_out != nullptr && job.e_out != job.e_in && job.tensor_elems >= kStreamElems &&
         reinterpret_cast<uintptr_t>(job.e_out) % (4 * kLanes) == 0;
}

// Where a run's residual goes: the caller's array, or scratch that nobody reads, so that the loops
// need no branch.
HWY_INLINE float* ResidualOut(const EncodeJob& job, int64_t first, float* scratch) {
  return job.e_out != nullptr ? job.e_out + first : scratch;
}

template <class Store>
HWY_INLINE void CopyRun(const float* HWY_RESTRICT from, float* HWY_RESTRICT to) {
  for (int64_t i = 0; i < kRunElems; i += kLanes) Store()(hn::Load(DF(), from + i), to + i);
}

// The run e_out[first..] = errors (64-byte aligned); nothing without e_out.
HWY_INLINE void StoreResidual(const EncodeJob& job, int64_t first, const float* errors) {
  if (StreamsResidual(job)) {
    CopyRun<StoreStreamed>(errors, job.e_out + first);
  } else if (job.e_out != nullptr) {
    CopyRun<StoreCached>(errors, job.e_out + first);
  }
}

// --- random bits --------------------------------------------------------------------------------

// Philox4x32-10 as base/rng.h lays it out, one call per 64-bit lane. The upper half of a lane
// carries garbage between rounds; multiplications read the lower half only.
struct PhiloxLanes {
  VU64 c0, c1, c2, c3;

  HWY_INLINE PhiloxLanes(const PhiloxInput& in, uint32_t first_call)
      : c0(hn::Iota(DU64(), in.counter[0] + first_call)),
        c1(hn::Set(DU64(), in.counter[1])),
        c2(hn::Set(DU64(), in.counter[2])),
        c3(hn::Set(DU64(), in.counter[3])) {}

  HWY_INLINE void Round(VU64 k0, VU64 k1) {
    const DU du;
    const VU64 x0 = hn::MulEven(hn::BitCast(du, c0), hn::Set(du, 0xD2511F53u));
    const VU64 x2 = hn::MulEven(hn::BitCast(du, c2), hn::Set(du, 0xCD9E8D57u));
    c0 = hn::Xor3(hn::ShiftRight<32>(x2), c1, k0);
    c1 = x2;
    c2 = hn::Xor3(hn::ShiftRight<32>(x0), c3, k1);
    c3 = x0;
  }

  HWY_INLINE void Store(uint16_t* HWY_RESTRICT out) const {
    const DU64 d;
    const VU64 low = hn::Set(d, 0xFFFFFFFFu);
    const VU64 words01 = hn::Or(hn::And(c0, low), hn::ShiftLeft<32>(c1));
    const VU64 words23 = hn::Or(hn::And(c2, low), hn::ShiftLeft<32>(c3));
    hn::StoreInterleaved2(words01, words23, d, reinterpret_cast<uint64_t*>(out));
  }
};

inline constexpr auto kDitherCalls = static_cast<uint32_t>(hn::MaxLanes(DU64()));
inline constexpr int64_t kDitherElems = kDitherCalls * kDitherGroupElems;

// out[i] = 16 dither bits of element i, from the element on with which group `group` of 8 begins.
// Vectors run side by side to hide the latency of the multiplications.
template <int kVectors>
HWY_INLINE void FillDitherOnce(const Dither& dither, int64_t group, uint16_t* HWY_RESTRICT out) {
  const DU64 d;
  static_assert(kVectors == 1 || kVectors == 4);
  const PhiloxInput in = DitherInput(dither, group);
  PhiloxLanes a(in, 0), b(in, kDitherCalls), c(in, 2 * kDitherCalls), e(in, 3 * kDitherCalls);
  uint32_t key0 = in.key[0];
  uint32_t key1 = in.key[1];
  for (int round = 0; round < 10; ++round) {
    const VU64 k0 = hn::Set(d, key0);
    const VU64 k1 = hn::Set(d, key1);
    a.Round(k0, k1);
    if constexpr (kVectors == 4) b.Round(k0, k1), c.Round(k0, k1), e.Round(k0, k1);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  a.Store(out);
  if constexpr (kVectors == 4) {
    b.Store(out + kDitherElems);
    c.Store(out + 2 * kDitherElems);
    e.Store(out + 3 * kDitherElems);
  }
}

// For `elems` elements; `out` has room for the next multiple of kDitherElems.
HWY_INLINE void FillDither(const Dither& dither, int64_t group, int64_t elems,
                           uint16_t* HWY_RESTRICT out) {
  int64_t i = 0;
  for (; i + 4 * kDitherElems <= elems; i += 4 * kDitherElems)
    FillDitherOnce<4>(dither, group + i / kDitherGroupElems, out + i);
  for (; i < elems; i += kDitherElems)
    FillDitherOnce<1>(dither, group + i / kDitherGroupElems, out + i);
}

inline void FillDither(const Dither& dither, int64_t group, uint16_t* HWY_RESTRICT out) {
  static_assert(kRunElems % (4 * kDitherElems) == 0);
  FillDither(dither, group, kRunElems, out);
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

// --- what a block without levels or signs has ---------------------------------------------------

inline bool AllZero(const std::byte* bytes, int64_t count) {
  uint8_t seen = 0;
  for (int64_t i = 0; i < count; ++i) seen |= static_cast<uint8_t>(bytes[i]);
  return seen == 0;
}

// --- output -------------------------------------------------------------------------------------

HWY_INLINE VF CanonicalNan(VF v) {
  const VF nan = hn::BitCast(DF(), hn::Set(DU(), kNanBits));
  return hn::IfThenElse(hn::IsNaN(v), nan, v);
}

// Writes decoded elements at `i` of a DecodeJob; one struct per kind of output. Members, not the
// job, are read in the loop: a store of floats might alias the job.
struct EmitAdd {
  std::byte* out;

  explicit EmitAdd(const DecodeJob& job) : out(job.out) {}
  HWY_INLINE void operator()(VF v, int64_t i) const {
    float* acc = reinterpret_cast<float*>(out) + i;
    PrefetchAhead(acc);
    hn::StoreU(CanonicalNan(hn::Add(hn::LoadU(DF(), acc), v)), DF(), acc);
  }
};

template <DType kType>
struct EmitStore {
  std::byte* out;
  VF scale;

  explicit HWY_INLINE EmitStore(const DecodeJob& job)
      : out(job.out), scale(hn::Set(DF(), job.out_scale)) {}
  HWY_INLINE void operator()(VF v, int64_t i) const {
    StoreFloats<kType>(CanonicalNan(hn::Mul(v, scale)), out + i * SizeOf(kType));
  }
};

// Calls `decode` as a template with the EmitStore of the output's type.
template <typename Decode>
HWY_INLINE auto StoreAs(DType out, const Decode& decode) {
  switch (out) {
    case DType::kFloat16: return decode.template operator()<EmitStore<DType::kFloat16>>();
    case DType::kBfloat16: return decode.template operator()<EmitStore<DType::kBfloat16>>();
    default: return decode.template operator()<EmitStore<DType::kFloat32>>();
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gradwire
HWY_AFTER_NAMESPACE();

#endif  // GW_SIMD_TARGET
#endif  // include guard per target
