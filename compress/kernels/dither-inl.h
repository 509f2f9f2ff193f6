// Dither bits, once per Highway target. Include after hwy/foreach_target.h.
#include "base/rng.h"
#include "compress/kernels/kernel_job.h"
#include "compress/kernels/vectors-inl.h"

#if defined(GRADWIRE_COMPRESS_KERNELS_DITHER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADWIRE_COMPRESS_KERNELS_DITHER_INL_H_
#undef GRADWIRE_COMPRESS_KERNELS_DITHER_INL_H_
#else
#define GRADWIRE_COMPRESS_KERNELS_DITHER_INL_H_
#endif

#if GW_SIMD_TARGET

HWY_BEFORE_NAMESPACE();
namespace gradwire {
namespace HWY_NAMESPACE {

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

}  // namespace HWY_NAMESPACE
}  // namespace gradwire
HWY_AFTER_NAMESPACE();

#endif  // GW_SIMD_TARGET
#endif  // include guard per target
