// The reduction loops as templates, written so that compilers vectorise them. Each source that
// includes this file compiles them for one target; everything is in an unnamed namespace, so that
// no linker takes one target's copy for another's. (Which is also why nothing of the standard
// library that has a body is used here.)
#ifndef GRADWIRE_COLLECTIVES_REDUCE_LOOPS_H_
#define GRADWIRE_COLLECTIVES_REDUCE_LOOPS_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "collectives/reduce/kernels.h"

// No iteration reads what another wrote: out is a, or b, or apart from both.
#ifdef __clang__
#define GW_INDEPENDENT _Pragma("clang loop vectorize(assume_safety) interleave(enable)")
#else
#define GW_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace gradwire {
namespace {

// --- bits of floats -----------------------------------------------------------------------------

template <typename To, typename From>
inline To Bits(From value) {
  return __builtin_bit_cast(To, value);
}

// Magnitudes compare as signed integers: below, magnitude > kInf means NaN.
template <typename S>
struct FloatBits;
template <>
struct FloatBits<int64_t> {
  static constexpr int64_t kMagnitude = 0x7FFFFFFFFFFFFFFF, kInf = 0x7FF0000000000000,
                           kNan = 0x7FF8000000000000;
};
template <>
struct FloatBits<int32_t> {
  static constexpr int32_t kMagnitude = 0x7FFFFFFF, kInf = 0x7F800000, kNan = 0x7FC00000;
};

// --- 16-bit floats: widen to float32, compute, narrow to nearest even ---------------------------

struct Bf16 {
  static constexpr int16_t kMagnitude = 0x7FFF, kInf = 0x7F80, kNan = 0x7FC0;
  static float Widen(uint16_t bits) { return Bits<float>(static_cast<uint32_t>(bits) << 16); }
  static uint16_t Narrow(float value) {
    const uint32_t bits = Bits<uint32_t>(value);
    const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    const bool nan = static_cast<int32_t>(bits & 0x7FFFFFFFu) > 0x7F800000;
    return static_cast<uint16_t>(nan ? kNan : rounded);
  }
};

struct Fp16 {
  static constexpr int16_t kMagnitude = 0x7FFF, kInf = 0x7C00, kNan = 0x7E00;
  static float Widen(uint16_t bits) {
    const int32_t magnitude = bits & 0x7FFF;
    // Subnormals count units of 2^-24; from infinity on the exponent takes a second re-bias.
    const int32_t small = Bits<int32_t>(static_cast<float>(magnitude) * 0x1p-24f);
    const int32_t normal = (magnitude << 13) + (112 << 23);
    const int32_t wide = magnitude >= kInf ? normal + (112 << 23) : normal;
    const int32_t sign = static_cast<int32_t>(static_cast<uint32_t>(bits & 0x8000) << 16);
    return Bits<float>(sign | (magnitude < 0x0400 ? small : wide));
  }
  static uint16_t Narrow(float value) {
    const int32_t bits = Bits<int32_t>(value);
    const int32_t magnitude = bits & 0x7FFFFFFF;
    // In [2^15, 2^16) * 2^-39 a float32 has steps of 2^-24, the steps of subnormals: the adder
    // rounds.
    const int32_t small = Bits<int32_t>(Bits<float>(magnitude) + 0.5f) - 0x3F000000;
    const int32_t normal = (magnitude - (112 << 23) + 0x0FFF + ((magnitude >> 13) & 1)) >> 13;
    const int32_t capped = normal > kInf ? kInf : normal;
    const int32_t finite = magnitude < 0x38800000 ? small : capped;
    const int32_t result = magnitude > 0x7F800000 ? kNan : finite;
    return static_cast<uint16_t>((magnitude > 0x7F800000 ? 0 : (bits >> 16) & 0x8000) | result);
  }
};

// --- element types: what is in memory, and how to add and multiply ------------------------------

template <typename T>
struct Integer {
  using Stored = T;
  // Wraps; also where the promotion to int would overflow.
  using Modular = std::make_unsigned_t<T>;
  static T Sum(T x, T y) {
    return static_cast<T>(static_cast<Modular>(x) + static_cast<Modular>(y));
  }
  static T Prod(T x, T y) {
    return static_cast<T>(static_cast<Modular>(x) * static_cast<Modular>(y));
  }
  static T Max(T x, T y) { return x > y ? x : y; }
  static T Min(T x, T y) { return x < y ? x : y; }
};

// On bits, as signed integers in the order of the numbers: exact, and without a rule of the
// processor's own for NaN and -0.
template <typename S, typename Traits>
struct BitOrder {
  static S Key(S bits) { return bits ^ ((bits >> (8 * sizeof(S) - 1)) & Traits::kMagnitude); }
  static S Pick(S x, S y, S chosen_key) {
    const bool nan = static_cast<S>(x & Traits::kMagnitude) > Traits::kInf ||
                     static_cast<S>(y & Traits::kMagnitude) > Traits::kInf;
    return nan ? Traits::kNan : Key(chosen_key);
  }
  static S Max(S x, S y) {
    const S kx = Key(x), ky = Key(y);
    return Pick(x, y, kx > ky ? kx : ky);
  }
  static S Min(S x, S y) {
    const S kx = Key(x), ky = Key(y);
    return Pick(x, y, kx < ky ? kx : ky);
  }
};

template <typename F, typename S>
struct Float : BitOrder<S, FloatBits<S>> {
  using Stored = S;
  static S Canonical(F value) { return value != value ? FloatBits<S>::kNan : Bits<S>(value); }
  static S Sum(S x, S y) { return Canonical(Bits<F>(x) + Bits<F>(y)); }
  static S Prod(S x, S y) { return Canonical(Bits<F>(x) * Bits<F>(y)); }
};

template <typename Half>
struct Float16 : BitOrder<int16_t, Half> {
  using Stored = int16_t;
  static int16_t Sum(int16_t x, int16_t y) {
    return static_cast<int16_t>(Half::Narrow(Half::Widen(x) + Half::Widen(y)));
  }
  static int16_t Prod(int16_t x, int16_t y) {
    return static_cast<int16_t>(Half::Narrow(Half::Widen(x) * Half::Widen(y)));
  }
};

// --- loops --------------------------------------------------------------------------------------

// Any alignment, and no rule about which type the caller's memory has.
template <typename T>
inline T Load(const std::byte* p, int64_t i) {
  T value;
  __builtin_memcpy(&value, p + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}
template <typename T>
inline void Store(T value, std::byte* p, int64_t i) {
  __builtin_memcpy(p + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

template <typename Type, typename Type::Stored (*op)(typename Type::Stored, typename Type::Stored)>
void Loop(const std::byte* a, const std::byte* b, std::byte* out, int64_t elems) {
  using T = typename Type::Stored;
  GW_INDEPENDENT
  for (int64_t i = 0; i < elems; ++i) Store<T>(op(Load<T>(a, i), Load<T>(b, i)), out, i);
}

template <typename Type>
constexpr std::array<ReduceKernel, kKernelOps> Ops() {
  return {Loop<Type, Type::Sum>, Loop<Type, Type::Prod>, Loop<Type, Type::Max>,
          Loop<Type, Type::Min>};
}

// In the order of DType.
constexpr ReduceKernels Loops() {
  return {Ops<Integer<int8_t>>(),   Ops<Integer<uint8_t>>(),      Ops<Integer<int32_t>>(),
          Ops<Integer<uint32_t>>(), Ops<Integer<int64_t>>(),      Ops<Integer<uint64_t>>(),
          Ops<Float16<Fp16>>(),     Ops<Float<float, int32_t>>(), Ops<Float<double, int64_t>>(),
          Ops<Float16<Bf16>>()};
}

}  // namespace
}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_REDUCE_LOOPS_H_
