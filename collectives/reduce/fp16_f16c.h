// Sum and product of float16 with the processor's conversions: no compiler makes them of plain
// loops, which are ten times slower. Included by sources compiled with F16C; unnamed, as loops.h.
#ifndef GRADWIRE_COLLECTIVES_REDUCE_FP16_F16C_H_
#define GRADWIRE_COLLECTIVES_REDUCE_FP16_F16C_H_

#include <immintrin.h>

#include "collectives/reduce/loops.h"

namespace gradwire {
namespace {

struct VectorSum {
  static __m256 Apply(__m256 x, __m256 y) { return _mm256_add_ps(x, y); }
  static constexpr auto kScalar = &Float16<Fp16>::Sum;
};
struct VectorProd {
  static __m256 Apply(__m256 x, __m256 y) { return _mm256_mul_ps(x, y); }
  static constexpr auto kScalar = &Float16<Fp16>::Prod;
};

inline __m256 LoadWide(const std::byte* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

template <typename Op>
void LoopF16c(const std::byte* a, const std::byte* b, std::byte* out, int64_t elems) {
  const __m256 nan = _mm256_set1_ps(__builtin_nanf(""));
  int64_t i = 0;
  for (; i + 8 <= elems; i += 8) {
    const __m256 raw = Op::Apply(LoadWide(a + 2 * i), LoadWide(b + 2 * i));
    const __m256 value = _mm256_blendv_ps(raw, nan, _mm256_cmp_ps(raw, raw, _CMP_UNORD_Q));
    const __m128i narrow = _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 2 * i), narrow);
  }
  for (; i < elems; ++i) {
    Store<int16_t>(Op::kScalar(Load<int16_t>(a, i), Load<int16_t>(b, i)), out, i);
  }
}

constexpr ReduceKernels LoopsWithF16c() {
  ReduceKernels kernels = Loops();
  kernels[static_cast<int>(DType::kFloat16)][0] = LoopF16c<VectorSum>;
  kernels[static_cast<int>(DType::kFloat16)][1] = LoopF16c<VectorProd>;
  return kernels;
}

}  // namespace
}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_REDUCE_FP16_F16C_H_
