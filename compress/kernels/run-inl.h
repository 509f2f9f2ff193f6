// What the SIMD kernels of codecs share, once per Highway target: loading a run of 256 elements
// into first-level cache, statistics, writing residuals and decoded elements. It gives the bits of
// scalar_ref.h. Include after hwy/foreach_target.h.
#include "compress/kernels/kernel_job.h"
#include "compress/kernels/vectors-inl.h"

#if defined(GRADWIRE_COMPRESS_KERNELS_RUN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADWIRE_COMPRESS_KERNELS_RUN_INL_H_
#undef GRADWIRE_COMPRESS_KERNELS_RUN_INL_H_
#else
#define GRADWIRE_COMPRESS_KERNELS_RUN_INL_H_
#endif

#if GW_SIMD_TARGET

HWY_BEFORE_NAMESPACE();
namespace gradwire {
namespace HWY_NAMESPACE {

// --- input --------------------------------------------------------------------------------------

// Who fetches the input from memory. kAhead: we, kPrefetchBytes early, because stores between the
// runs upset the processor's own prefetcher. kNone: it alone, where there are few stores; asking as
// well cost a third of the bandwidth on AMD's Zen 4.
enum class Prefetch : uint8_t { kAhead, kNone };

template <DType kType, bool kHasResidual, Prefetch kPrefetch>
HWY_INLINE uint32_t LoadInputAs(const InputJob& job, int64_t first, int64_t elems,
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
HWY_INLINE uint32_t LoadInput(const InputJob& job, int64_t first, int64_t elems,
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
inline uint32_t LoadRun(const InputJob& job, int64_t first, float* HWY_RESTRICT p) {
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
HWY_INLINE bool StreamsResidual(const InputJob& job) {
  return job.e_out != nullptr && job.e_out != job.e_in && job.tensor_elems >= kStreamElems &&
         reinterpret_cast<uintptr_t>(job.e_out) % (4 * kLanes) == 0;
}

// Where a run's residual goes: the caller's array, or scratch that nobody reads, so that the loops
// need no branch.
HWY_INLINE float* ResidualOut(const InputJob& job, int64_t first, float* scratch) {
  return job.e_out != nullptr ? job.e_out + first : scratch;
}

template <class Store>
HWY_INLINE void CopyRun(const float* HWY_RESTRICT from, float* HWY_RESTRICT to) {
  for (int64_t i = 0; i < kRunElems; i += kLanes) Store()(hn::Load(DF(), from + i), to + i);
}

// The run e_out[first..] = errors (64-byte aligned); nothing without e_out.
HWY_INLINE void StoreResidual(const InputJob& job, int64_t first, const float* errors) {
  if (StreamsResidual(job)) {
    CopyRun<StoreStreamed>(errors, job.e_out + first);
  } else if (job.e_out != nullptr) {
    CopyRun<StoreCached>(errors, job.e_out + first);
  }
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
