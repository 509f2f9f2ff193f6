// SIMD kernels of the pass over the input; input_ref.cc says what they compute.
#include "compress/kernels/dispatch.h"
#include "compress/kernels/input/input_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress/kernels/input/input_simd.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "compress/kernels/run-inl.h"

#if GW_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace gradwire {
namespace HWY_NAMESPACE {
namespace {

void MeasureRun(const InputJob& run, uint32_t absmax_bits, const float* HWY_RESTRICT p) {
  SquareSums sums(absmax_bits);
  for (int64_t i = 0; i < kRunElems; i += kLanes) sums.AddValue(hn::Load(DF(), p + i));
  sums.AddTo(run.stats);
  NoteAbsmax(absmax_bits, run.stats);
  if (run.e_out == nullptr) return;
  for (int64_t i = 0; i < kRunElems; i += kLanes) {
    hn::StoreU(hn::Load(DF(), p + i), DF(), run.e_out + i);
  }
}

template <Prefetch kPrefetch>
void MeasureRuns(const InputJob& job) {
  const int64_t whole = job.elems - job.elems % kRunElems;
  alignas(64) float p[kRunElems];
  for (int64_t first = 0; first < whole; first += kRunElems) {
    const InputJob run = job.Sub(first, kRunElems);
    const uint32_t absmax_bits = LoadRun<kPrefetch>(run, 0, p);
    if (absmax_bits < kInfBits) {
      MeasureRun(run, absmax_bits, p);
    } else {
      MeasureInputRef(run);
    }
  }
  if (whole < job.elems) MeasureInputRef(job.Sub(whole, job.elems - whole));
}

void Measure(const InputJob& job) {
  if (job.e_out != nullptr) return MeasureRuns<Prefetch::kAhead>(job);
  MeasureRuns<Prefetch::kNone>(job);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gradwire
HWY_AFTER_NAMESPACE();
#endif  // GW_SIMD_TARGET

#if HWY_ONCE
namespace gradwire {
namespace {

constexpr KernelTable<MeasureInput> kTable = {
    {MeasureInputRef, HWY_CHOOSE_SSE4(Measure), HWY_CHOOSE_AVX2(Measure), HWY_CHOOSE_AVX3(Measure)},
    [](const MeasureInput& kernel) { return kernel != nullptr; }};

}  // namespace

MeasureInput ActiveMeasureInput() { return kTable.Active(); }

}  // namespace gradwire
#endif  // HWY_ONCE
