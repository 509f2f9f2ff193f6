#include "compress/kernels/dispatch.h"

#include <atomic>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace gradwire {
namespace {

#if defined(__x86_64__)

// clang 14's __builtin_cpu_supports does not know f16c.
bool HasF16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

// The features Highway 1.0.3 lets the compiler use per target (HWY_TARGET_STR_*): a processor that
// lacks one of them must not run that row. The builtins also ask whether the system saves the
// registers.
bool Runs(SimdTarget target) {
  switch (target) {
    case SimdTarget::kScalar: return true;
    case SimdTarget::kSse4:
      return __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.1") &&
             __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul") &&
             __builtin_cpu_supports("aes");
    case SimdTarget::kAvx2:
      return Runs(SimdTarget::kSse4) && __builtin_cpu_supports("avx") &&
             __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
             __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma") && HasF16c();
    case SimdTarget::kAvx512:
      return Runs(SimdTarget::kAvx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512bw");
  }
  return false;
}

#else

bool Runs(SimdTarget target) { return target == SimdTarget::kScalar; }

#endif

struct Supported {
  std::array<SimdTarget, kSimdTargets> targets;
  size_t count = 0;
};

const Supported& Detected() {
  static const Supported found = [] {
    Supported s{};
    for (int i = 0; i < kSimdTargets; ++i) {
      const auto target = static_cast<SimdTarget>(i);
      if (Runs(target)) s.targets[s.count++] = target;
    }
    return s;
  }();
  return found;
}

constexpr int kBest = -1;
std::atomic<int> forced_target{kBest};

}  // namespace

std::string_view Name(SimdTarget target) {
  switch (target) {
    case SimdTarget::kScalar: return "scalar";
    case SimdTarget::kSse4: return "sse4";
    case SimdTarget::kAvx2: return "avx2";
    case SimdTarget::kAvx512: return "avx512";
  }
  return "unknown";
}

std::span<const SimdTarget> SupportedTargets() {
  return {Detected().targets.data(), Detected().count};
}

SimdTarget ActiveTarget() {
  const int forced = forced_target.load(std::memory_order_relaxed);
  return forced == kBest ? SupportedTargets().back() : static_cast<SimdTarget>(forced);
}

bool ForceTargetForTest(std::string_view name) {
  if (name.empty()) {
    forced_target.store(kBest, std::memory_order_relaxed);
    return true;
  }
  for (SimdTarget target : SupportedTargets()) {
    if (Name(target) != name) continue;
    forced_target.store(static_cast<int>(target), std::memory_order_relaxed);
    return true;
  }
  return false;
}

}  // namespace gradwire
