// SIMD kernels of the scan for top-k candidates; topk_ref.cc says what they compute.
#include <algorithm>
#include <bit>

#include "compress/kernels/dispatch.h"
#include "compress/kernels/scalar_ref.h"
#include "compress/kernels/topk/topk_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress/kernels/topk/topk_simd.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "compress/kernels/run-inl.h"

#if GW_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace gradwire {
namespace HWY_NAMESPACE {
namespace {

HWY_INLINE void AddSquares(const float* HWY_RESTRICT p, uint32_t absmax_bits, EncodeStats* stats) {
  SquareSums sums(absmax_bits);
  for (int64_t i = 0; i < kRunElems; i += kLanes) sums.AddValue(hn::Load(DF(), p + i));
  sums.AddTo(stats);
}

// Bit i: |p[i]| of 64 is not below `least`; so for a NaN.
HWY_INLINE uint64_t ReachBits(const float* HWY_RESTRICT p, VF least) {
  uint64_t below = 0;
  for (int64_t i = 0; i < 64; i += kLanes) {
    const auto mask = hn::Lt(hn::Abs(hn::Load(DF(), p + i)), least);
    below |= uint64_t{BitsOf(hn::RebindMask(DU(), mask))} << i;
  }
  return ~below;
}

// Appends what of the run p[0..256), elements first.., reaches the floor, and may write two places
// more. One by one is faster than Highway's Compress, whose tables gcc copies to the stack at each
// call.
HWY_INLINE int64_t AppendRun(const float* HWY_RESTRICT p, int64_t first, uint32_t floor,
                             TopkCandidates found) {
  const VF least = hn::BitCast(DF(), hn::Set(DU(), floor));
  for (int64_t i = 0; i < kRunElems; i += 64) {
    uint64_t reach = ReachBits(p + i, least);
    int64_t place = found.count;
    found.count += std::popcount(reach);
    const auto take = [&] {
      const int64_t at = i + std::countr_zero(reach) % 64;
      found.bits[place] = std::min(ref::MagnitudeBits(p[at]), kInfBits);
      found.index[place] = static_cast<uint32_t>(first + at);
      ++place;
      reach &= reach - 1;
    };
    // Two, whether there are two or none: more are rare in a sparse selection, and a branch that is
    // hardly ever mispredicted does not keep memory waiting.
    take();
    take();
    while (reach != 0) take();
  }
  return found.count;
}

template <class Store>
int64_t ScanRuns(const InputJob& input, int64_t first, uint32_t floor, TopkCandidates* found) {
  alignas(64) float p[kRunElems];
  while (input.elems - first >= kRunElems && found->capacity - found->count >= kTopkRoom) {
    const uint32_t absmax_bits = LoadRun<Prefetch::kNone>(input.Sub(first, kRunElems), 0, p);
    if (input.e_out != nullptr) CopyRun<Store>(p, input.e_out + first);
    if (input.stats != nullptr) AddSquares(p, absmax_bits, input.stats);
    found->absmax_bits = std::max(found->absmax_bits, absmax_bits);
    // Nothing reaches a floor above infinity, which as a float would be a NaN.
    if (std::min(absmax_bits, kInfBits) >= floor) found->count = AppendRun(p, first, floor, *found);
    first += kRunElems;
  }
  return first;
}

bool MayStream(const InputJob& input, int64_t first) {
  if (input.e_out == nullptr || input.elems < kStreamElems) return false;
  return reinterpret_cast<uintptr_t>(input.e_out + first) % (4 * kLanes) == 0;
}

int64_t Scan(const InputJob& input, int64_t first, uint32_t floor, TopkCandidates* found) {
  if (MayStream(input, first)) {
    first = ScanRuns<StoreStreamed>(input, first, floor, found);
    hwy::FlushStream();
  } else {
    first = ScanRuns<StoreCached>(input, first, floor, found);
  }
  const bool tail = input.elems - first < kRunElems;
  return tail ? TopkScanRef(input, first, floor, found) : first;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gradwire
HWY_AFTER_NAMESPACE();
#endif  // GW_SIMD_TARGET

#if HWY_ONCE
namespace gradwire {
namespace {

constexpr KernelTable<TopkScan> kTable = {
    {TopkScanRef, HWY_CHOOSE_SSE4(Scan), HWY_CHOOSE_AVX2(Scan), HWY_CHOOSE_AVX3(Scan)},
    [](const TopkScan& scan) { return scan != nullptr; }};

}  // namespace

TopkScan ActiveTopkScan() { return kTable.Active(); }

}  // namespace gradwire
#endif  // HWY_ONCE
