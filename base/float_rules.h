// What floating-point arithmetic does where sums and codecs are computed.
#ifndef GRADWIRE_BASE_FLOAT_RULES_H_
#define GRADWIRE_BASE_FLOAT_RULES_H_

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace gradwire {

// Rounds to nearest and keeps subnormals for as long as it lives, on this thread: applications set
// other rules for themselves (torch.set_flush_denormal), and ranks that compute by different ones
// would end with different bits.
class ScopedFloatRules {
 public:
#if defined(__x86_64__)
  ScopedFloatRules() : before_(_mm_getcsr()) {
    if (before_ != kRules) _mm_setcsr(kRules);
  }
  ~ScopedFloatRules() {
    if (before_ != kRules) _mm_setcsr(before_);
  }
#else
  ScopedFloatRules() {}  // other processors keep subnormals unless told, and nobody here tells them
#endif
  ScopedFloatRules(const ScopedFloatRules&) = delete;
  ScopedFloatRules& operator=(const ScopedFloatRules&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr unsigned int kRules = 0x1F80;  // as a process begins: all exceptions masked
  const unsigned int before_;
#endif
};

}  // namespace gradwire

#endif  // GRADWIRE_BASE_FLOAT_RULES_H_
