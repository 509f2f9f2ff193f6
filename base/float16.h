// bf16 and fp16 <-> fp32 as pure bit arithmetic, usable in constant expressions.
//
// This is the specification: SIMD and CUDA conversions must give these bits. It depends on no
// rounding mode and on no flush-to-zero flag.
//   widening   exact; subnormals are kept. A signalling NaN of fp16 becomes quiet (as F16C
//              does), one of bf16 keeps its bits (widening bf16 is a shift).
//   narrowing  to nearest, ties to even; too large becomes infinity; too small becomes a
//              subnormal or a zero of the same sign; NaN stays NaN, is made quiet, and keeps its
//              sign and the upper bits of its payload.
// A 16-bit float travels as uint16_t: its bits in host byte order.
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
  const uint32_t exponent = (fp16 >> 10) & 0x1Fu;
  const uint32_t mantissa = fp16 & 0x3FFu;
  uint32_t bits = ((exponent + 112u) << 23) | (mantissa << 13);
  if (exponent == 31u) {
    const uint32_t quiet = mantissa != 0 ? 0x00400000u : 0u;
    bits = 0x7F800000u | quiet | (mantissa << 13);
  } else if (exponent == 0 && mantissa == 0) {
    bits = 0;
  } else if (exponent == 0) {
    // mantissa * 2^-24 with its top bit at position `top`.
    const uint32_t top = 31u - static_cast<uint32_t>(std::countl_zero(mantissa));
    bits = ((top + 103u) << 23) | ((mantissa << (23u - top)) & 0x007FFFFFu);
  }
  return std::bit_cast<float>(sign | bits);
}

constexpr uint16_t Fp16FromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  uint32_t out = 0;
  if (magnitude > 0x7F800000u) {  // NaN
    out = 0x7E00u | ((magnitude >> 13) & 0x3FFu);
  } else if (magnitude >= 0x47800000u) {  // 2^16 and above
    out = 0x7C00u;
  } else if (magnitude >= 0x38800000u) {  // normal in fp16, or rounds up to infinity
    const uint32_t odd = (magnitude >> 13) & 1u;
    out = (magnitude - (112u << 23) + 0x0FFFu + odd) >> 13;
  } else if (magnitude >= 0x33000000u) {  // 2^-25 and above: count units of 2^-24
    const uint32_t shift = 126u - (magnitude >> 23);
    const uint32_t mantissa = (magnitude & 0x007FFFFFu) | 0x00800000u;
    const uint32_t odd = (mantissa >> shift) & 1u;
    out = (mantissa + (1u << (shift - 1u)) - 1u + odd) >> shift;
  }
  return static_cast<uint16_t>(sign | out);
}

}  // namespace gradwire

#endif  // GRADWIRE_BASE_FLOAT16_H_
