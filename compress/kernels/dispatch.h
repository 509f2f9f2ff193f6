// Which SIMD target runs: our own choice among what one Highway source was compiled for.
//
// Highway's HWY_DYNAMIC_DISPATCH lives in libhwy.so, which a communication library must not need. A
// kernel therefore fills a KernelTable from the per-target namespaces, and Active() picks a row.
// Every row gives the same bytes; rows differ in speed and in the last bits of statistics.
#ifndef GRADWIRE_COMPRESS_KERNELS_DISPATCH_H_
#define GRADWIRE_COMPRESS_KERNELS_DISPATCH_H_

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace gradwire {

// In order of preference, the plainest first. kScalar is the reference and exists everywhere.
enum class SimdTarget : uint8_t { kScalar, kSse4, kAvx2, kAvx512 };
inline constexpr int kSimdTargets = 4;

// "scalar", "sse4", "avx2", "avx512".
std::string_view Name(SimdTarget target);

// What this processor runs, plainest first; never empty. Valid forever.
std::span<const SimdTarget> SupportedTargets();

// The target kernels use now: the best supported one unless a test forces another. Any thread.
SimdTarget ActiveTarget();

// Makes every kernel use `name` until the next call; empty: the best again. False, and without
// effect, where the name is unknown or this processor lacks it. Process-wide: for tests and
// benchmarks, while no other thread encodes.
bool ForceTargetForTest(std::string_view name);

// One kernel, compiled for each target. `Kernel` is a struct of function pointers, or one pointer.
// Rows the compiler could not build for are value-initialised, which makes `usable` false.
template <typename Kernel>
struct KernelTable {
  std::array<Kernel, kSimdTargets> rows;  // by SimdTarget
  bool (*usable)(const Kernel&);

  // The row of the active target, or the best row below it.
  const Kernel& Active() const {
    auto row = static_cast<size_t>(ActiveTarget());
    while (row > 0 && !usable(rows[row])) --row;
    return rows[row];
  }
};

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_KERNELS_DISPATCH_H_
