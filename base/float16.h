// bf16 and fp16 <-> fp32, element by element, usable in constant expressions.
//
// This is the specification: SIMD and CUDA conversions must give these bits.
//   widening   exact; subnormals are kept. A signalling NaN of fp16 becomes quiet (as F16C
//              does), one of bf16 keeps its bits (widening bf16 is a shift).
//   narrowing  to nearest, ties to even; too large becomes infinity; too small becomes a
//              subnormal or a zero of the same sign; NaN stays NaN, is made quiet, and keeps its
//              sign and the upper bits of its payload.
// A 16-bit float travels as uint16_t: its bits in host byte order. No flush-to-zero flag matters;
// narrowing to subnormals of fp16 is rounded by an addition, so the thread must round to nearest,
// as base/float_rules.h sees to.
//
// Compilers vectorise loops over these functions, which have no branches.
#ifndef GRADWIRE_BASE_FLOAT16_H_
#define GRADWIRE_BASE_FLOAT16_H_

#include <bit>
#include <cstdint>

namespace gradwire {

constexpr float FloatFromBf16(uint16_t bf16) {
  return std::bit_cast<float>(static_cast<uint32_t>(bf16) << 16);
}

constexpr uint16_t Bf16FromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 0x0040u);
  // The carry out of the mantissa moves into the exponent, up to infinity: what rounding wants.
  const uint32_t odd = (bits >> 16) & 1u;
  return static_cast<uint16_t>((bits + 0x7FFFu + odd) >> 16);
}

constexpr float FloatFromFp16(uint16_t fp16) {
  const uint32_t sign = (fp16 & 0x8000u) << 16;
  const uint32_t magnitude = (fp16 & 0x7FFFu) << 13;
  const bool subnormal = magnitude < 0x00800000u;
  const bool special = magnitude >= 0x0F800000u;  // infinity or NaN
  const uint32_t quiet = magnitude > 0x0F800000u ? 0x00400000u : 0u;
  // 2^-14 + mantissa * 2^-24 is normal in float32, so no flush-to-zero flag matters.
  constexpr uint32_t kSmallest = 113u << 23;
  const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude + kSmallest) -
                                                 std::bit_cast<float>(kSmallest));
  const uint32_t large = magnitude + (special ? 224u << 23 : 112u << 23);
  return std::bit_cast<float>(sign | quiet | (subnormal ? small : large));
}

constexpr uint16_t Fp16FromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  const uint32_t odd = (magnitude >> 13) & 1u;
  const uint32_t normal = (magnitude - (112u << 23) + 0x0FFFu + odd) >> 13;
  // Beside 0.5 the last place is 2^-24, fp16's smallest step: the addition rounds.
  const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
                         std::bit_cast<uint32_t>(0.5f);
  const uint32_t nan = 0x7E00u | ((magnitude >> 13) & 0x3FFu);
  const uint32_t special = magnitude > 0x7F800000u ? nan : 0x7C00u;
  const uint32_t finite = magnitude >= 0x38800000u ? normal : small;
  return static_cast<uint16_t>(sign | (magnitude >= 0x47800000u ? special : finite));
}

}  // namespace gradwire

#endif  // GRADWIRE_BASE_FLOAT16_H_
