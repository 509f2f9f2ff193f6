#include "base/numeric.h"

#include <algorithm>
#include <cstring>

#include "base/float16.h"

// Every loop here must vectorise (see the BUILD file's flags): plain pointers, no branches.
namespace gradwire {
namespace {

// A value is not finite when its exponent bits are all ones.
template <typename Bits>
uint64_t CountExponentOnes(ConstView values, Bits exponent) {
  // A counter as narrow as the elements keeps every lane busy; a run this long cannot overflow one
  // of 16 bits.
  constexpr int64_t kRunElems = 1 << 15;
  const Bits* bits = values.as<Bits>();
  uint64_t total = 0;
  for (int64_t first = 0; first < values.elems; first += kRunElems) {
    const int64_t end = std::min(values.elems, first + kRunElems);
    Bits count = 0;
    for (int64_t i = first; i < end; ++i) count += (bits[i] & exponent) == exponent ? 1 : 0;
    total += count;
  }
  return total;
}

struct Float32 {
  using Bits = float;
  static float Get(float x) { return x; }
  static float Put(float x) { return x; }
};
struct Float16 {
  using Bits = uint16_t;
  static float Get(uint16_t x) { return FloatFromFp16(x); }
  static uint16_t Put(float x) { return Fp16FromFloat(x); }
};
struct Bfloat16 {
  using Bits = uint16_t;
  static float Get(uint16_t x) { return FloatFromBf16(x); }
  static uint16_t Put(float x) { return Bf16FromFloat(x); }
};

// Calls `body` with the traits of a floating-point type of at most 32 bits.
template <typename Body>
void WithFloatType(DType dtype, Body body) {
  if (dtype == DType::kFloat32) return body(Float32());
  if (dtype == DType::kFloat16) return body(Float16());
  if (dtype == DType::kBfloat16) return body(Bfloat16());
}

template <bool kAdd>
void Contribute(ConstView grad, float scale, ConstView e, View acc) {
  float* out = acc.as<float>();
  WithFloatType(grad.dtype, [&](auto type) {
    using Type = decltype(type);
    const auto* in = grad.as<typename Type::Bits>();
    const int64_t elems = grad.elems;
    if (e.empty()) {
      for (int64_t i = 0; i < elems; ++i) {
        const float p = Type::Get(in[i]) * scale;
        out[i] = kAdd ? out[i] + p : p;
      }
      return;
    }
    const float* residual = e.as<float>();
    for (int64_t i = 0; i < elems; ++i) {
      const float p = Type::Get(in[i]) * scale + residual[i];
      out[i] = kAdd ? out[i] + p : p;
    }
  });
}

}  // namespace

void LoadContribution(ConstView grad, float scale, ConstView e, View acc) {
  Contribute<false>(grad, scale, e, acc);
}
void AddContribution(ConstView grad, float scale, ConstView e, View acc) {
  Contribute<true>(grad, scale, e, acc);
}

void AddDecayed(ConstView last, float decay, float gain, View next) {
  const float* from = last.as<float>();
  float* to = next.as<float>();
  const int64_t elems = next.elems;
  for (int64_t i = 0; i < elems; ++i) to[i] = decay * from[i] + gain * to[i];
}

void ScaleInto(ConstView in, float scale, View out) {
  if (in.empty()) return;
  if (in.dtype == DType::kFloat64) {
    for (int64_t i = 0; i < in.elems; ++i) out.as<double>()[i] = in.as<double>()[i] * scale;
    return;
  }
  if (scale == 1.0f && in.dtype == out.dtype) {
    if (in.data != out.data) std::memcpy(out.data, in.data, in.bytes());
    return;
  }
  WithFloatType(in.dtype, [&](auto from) {
    WithFloatType(out.dtype, [&](auto to) {
      const auto* source = in.as<typename decltype(from)::Bits>();
      auto* target = out.as<typename decltype(to)::Bits>();
      const int64_t elems = in.elems;
      for (int64_t i = 0; i < elems; ++i) target[i] = to.Put(from.Get(source[i]) * scale);
    });
  });
}

uint64_t CountNonFinite(ConstView values) {
  switch (values.dtype) {
    case DType::kFloat32: return CountExponentOnes<uint32_t>(values, 0x7f800000u);
    case DType::kFloat64: return CountExponentOnes<uint64_t>(values, 0x7ff0000000000000u);
    case DType::kFloat16: return CountExponentOnes<uint16_t>(values, 0x7c00u);
    case DType::kBfloat16: return CountExponentOnes<uint16_t>(values, 0x7f80u);
    case DType::kInt8:
    case DType::kUint8:
    case DType::kInt32:
    case DType::kUint32:
    case DType::kInt64:
    case DType::kUint64: return 0;
  }
  return 0;
}

}  // namespace gradwire
