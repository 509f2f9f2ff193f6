#include "collectives/reduce/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "base/float16.h"
#include "base/rng.h"
#include "compress/kernels/dispatch.h"
#include "tests/lib/sanitized.h"

namespace gradwire {
namespace {

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin,
                             ReduceOp::kAvg};

using Array = std::vector<std::byte>;

Array RandomBytes(int64_t bytes, uint64_t seed) {
  RandomStream random(seed);
  Array array(bytes);
  for (std::byte& b : array) b = static_cast<std::byte>(random());
  return array;
}

Array Reduced(DType dtype, ReduceOp op, const Array& a, const Array& b) {
  Array out(a.size(), std::byte{0x55});
  const auto size = static_cast<int64_t>(a.size());
  ReduceInto(dtype, op, {a.data(), size}, {b.data(), size}, {out.data(), size});
  return out;
}

template <typename T>
T At(const Array& array, int64_t i) {
  T value;
  std::memcpy(&value, array.data() + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <typename T>
Array ArrayOf(const std::vector<T>& values) {
  Array array(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(array.data(), values.data(), array.size());
  return array;
}

// --- the reference: wide arithmetic, one element at a time
// ----------------------------------------

// Order of max and min on numbers: +0 above -0.
bool Less(long double x, long double y) {
  if (x == y) return std::signbit(x) && !std::signbit(y);
  return x < y;
}

// Bits of x op y, where Narrow rounds a long double once to the type.
template <typename U, typename Widen, typename Narrow>
U FloatReference(ReduceOp op, U x, U y, U nan, Widen widen, Narrow narrow) {
  const long double wx = widen(x), wy = widen(y);
  if (std::isnan(wx) || std::isnan(wy)) return nan;
  switch (op) {
    case ReduceOp::kMax: return Less(wx, wy) ? y : x;
    case ReduceOp::kMin: return Less(wx, wy) ? x : y;
    case ReduceOp::kProd: return std::isnan(wx * wy) ? nan : narrow(x, y, op);
    case ReduceOp::kSum:
    case ReduceOp::kAvg: return std::isnan(wx + wy) ? nan : narrow(x, y, op);
  }
  return nan;
}

template <typename T>
T IntegerReference(ReduceOp op, T x, T y) {
  using Wide = unsigned __int128;
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg: return static_cast<T>(static_cast<Wide>(x) + static_cast<Wide>(y));
    case ReduceOp::kProd: return static_cast<T>(static_cast<Wide>(x) * static_cast<Wide>(y));
    case ReduceOp::kMax: return std::max(x, y);
    case ReduceOp::kMin: return std::min(x, y);
  }
  return 0;
}

uint16_t Reference16(DType dtype, ReduceOp op, uint16_t x, uint16_t y) {
  const bool half = dtype == DType::kFloat16;
  auto widen = [half](uint16_t v) { return half ? FloatFromFp16(v) : FloatFromBf16(v); };
  auto narrow = [&](uint16_t u, uint16_t v, ReduceOp o) {
    // The contract: computed in float32 (exact or rounded once), then rounded again.
    const float r = o == ReduceOp::kProd ? widen(u) * widen(v) : widen(u) + widen(v);
    return half ? Fp16FromFloat(r) : Bf16FromFloat(r);
  };
  return FloatReference<uint16_t>(op, x, y, half ? 0x7E00 : 0x7FC0, widen, narrow);
}

uint32_t Reference32(ReduceOp op, uint32_t x, uint32_t y) {
  auto widen = [](uint32_t v) { return std::bit_cast<float>(v); };
  auto narrow = [&](uint32_t u, uint32_t v, ReduceOp o) {
    // In double a sum or product of floats is rounded so finely that rounding again is harmless.
    const double a = widen(u), b = widen(v);
    return std::bit_cast<uint32_t>(static_cast<float>(o == ReduceOp::kProd ? a * b : a + b));
  };
  return FloatReference<uint32_t>(op, x, y, 0x7FC00000, widen, narrow);
}

uint64_t Reference64(ReduceOp op, uint64_t x, uint64_t y) {
  auto widen = [](uint64_t v) { return std::bit_cast<double>(v); };
  auto narrow = [&](uint64_t u, uint64_t v, ReduceOp o) {
    const volatile double a = widen(u), b = widen(v);
    return std::bit_cast<uint64_t>(o == ReduceOp::kProd ? a * b : a + b);
  };
  return FloatReference<uint64_t>(op, x, y, 0x7FF8000000000000, widen, narrow);
}

// Element i of a op b must be this; compared as integers of the same width.
uint64_t Reference(DType dtype, ReduceOp op, const Array& a, const Array& b, int64_t i) {
  switch (dtype) {
    case DType::kInt8:
      return static_cast<uint8_t>(IntegerReference(op, At<int8_t>(a, i), At<int8_t>(b, i)));
    case DType::kUint8: return IntegerReference(op, At<uint8_t>(a, i), At<uint8_t>(b, i));
    case DType::kInt32:
      return static_cast<uint32_t>(IntegerReference(op, At<int32_t>(a, i), At<int32_t>(b, i)));
    case DType::kUint32: return IntegerReference(op, At<uint32_t>(a, i), At<uint32_t>(b, i));
    case DType::kInt64:
      return static_cast<uint64_t>(IntegerReference(op, At<int64_t>(a, i), At<int64_t>(b, i)));
    case DType::kUint64: return IntegerReference(op, At<uint64_t>(a, i), At<uint64_t>(b, i));
    case DType::kFloat16:
    case DType::kBfloat16: return Reference16(dtype, op, At<uint16_t>(a, i), At<uint16_t>(b, i));
    case DType::kFloat32: return Reference32(op, At<uint32_t>(a, i), At<uint32_t>(b, i));
    case DType::kFloat64: return Reference64(op, At<uint64_t>(a, i), At<uint64_t>(b, i));
  }
  return 0;
}

uint64_t BitsAt(DType dtype, const Array& array, int64_t i) {
  uint64_t bits = 0;  // little endian
  std::memcpy(&bits, array.data() + i * SizeOf(dtype), SizeOf(dtype));
  return bits;
}

// --- every target, type and operation
// -------------------------------------------------------------

class EveryTarget : public testing::TestWithParam<SimdTarget> {
 protected:
  void SetUp() override { ASSERT_TRUE(ForceTargetForTest(Name(GetParam()))); }
  void TearDown() override { ForceTargetForTest({}); }
};

void ExpectReference(DType dtype, ReduceOp op, const Array& a, const Array& b) {
  const Array out = Reduced(dtype, op, a, b);
  const int64_t elems = static_cast<int64_t>(a.size()) / SizeOf(dtype);
  for (int64_t i = 0; i < elems; ++i) {
    ASSERT_EQ(BitsAt(dtype, out, i), Reference(dtype, op, a, b, i))
        << Name(dtype) << " " << Name(op) << " " << std::hex << BitsAt(dtype, a, i) << " "
        << BitsAt(dtype, b, i);
  }
}

TEST_P(EveryTarget, RandomBitsOfEveryLength) {
  for (int d = 0; d < kDTypes; ++d) {
    const DType dtype = static_cast<DType>(d);
    for (ReduceOp op : kOps) {
      for (int64_t elems : {0, 1, 2, 3, 7, 8, 9, 15, 31, 32, 33, 63, 65, 127, 4099}) {
        const int64_t bytes = elems * SizeOf(dtype);
        ExpectReference(dtype, op, RandomBytes(bytes, elems), RandomBytes(bytes, elems + 1));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(EveryTarget, AllPairsOfBytes) {
  Array a, b;
  for (int x = 0; x < 256; ++x) {
    for (int y = 0; y < 256; ++y) {
      a.push_back(static_cast<std::byte>(x));
      b.push_back(static_cast<std::byte>(y));
    }
  }
  for (DType dtype : {DType::kInt8, DType::kUint8}) {
    for (ReduceOp op : kOps) {
      ExpectReference(dtype, op, a, b);
      if (HasFatalFailure()) return;
    }
  }
}

// Zeros, subnormals, one, the largest, infinity, quiet and signalling NaN, of both signs.
std::vector<uint64_t> SpecialBits(DType dtype) {
  int mantissa = 0, width = 0;
  switch (dtype) {
    case DType::kFloat16: mantissa = 10, width = 16; break;
    case DType::kBfloat16: mantissa = 7, width = 16; break;
    case DType::kFloat32: mantissa = 23, width = 32; break;
    default: mantissa = 52, width = 64; break;
  }
  const uint64_t sign = uint64_t{1} << (width - 1), unit = uint64_t{1} << mantissa;
  const uint64_t inf = sign - unit, bias = (inf >> 1) & ~(unit - 1);
  std::vector<uint64_t> bits;
  for (uint64_t b : {uint64_t{0}, uint64_t{1}, unit - 1, unit, unit + 1, bias, bias + 1, inf - 1,
                     inf, inf + 1, inf + unit / 2, inf + unit / 2 + 3, sign - 1}) {
    bits.push_back(b);
    bits.push_back(b | sign);
  }
  return bits;
}

TEST_P(EveryTarget, SpecialFloats) {
  for (DType dtype : {DType::kFloat16, DType::kBfloat16, DType::kFloat32, DType::kFloat64}) {
    const std::vector<uint64_t> bits = SpecialBits(dtype);
    Array a, b;
    for (uint64_t x : bits) {
      for (uint64_t y : bits) {
        const auto* px = reinterpret_cast<const std::byte*>(&x);
        const auto* py = reinterpret_cast<const std::byte*>(&y);
        a.insert(a.end(), px, px + SizeOf(dtype));
        b.insert(b.end(), py, py + SizeOf(dtype));
      }
    }
    for (ReduceOp op : kOps) {
      ExpectReference(dtype, op, a, b);
      // The order of the operands never shows.
      EXPECT_EQ(Reduced(dtype, op, a, b), Reduced(dtype, op, b, a)) << Name(dtype) << Name(op);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(EveryTarget, EveryFloat16WithSome) {
  for (DType dtype : {DType::kFloat16, DType::kBfloat16}) {
    std::vector<uint16_t> every(65536);
    for (int i = 0; i < 65536; ++i) every[i] = static_cast<uint16_t>(i);
    for (uint64_t other : SpecialBits(dtype)) {
      if (kSanitized && other % 4 != 0) continue;  // zeros, units, infinities remain
      const std::vector<uint16_t> same(65536, static_cast<uint16_t>(other));
      for (ReduceOp op : kOps) {
        ExpectReference(dtype, op, ArrayOf(every), ArrayOf(same));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(EveryTarget, InPlaceAndUnaligned) {
  for (int d = 0; d < kDTypes; ++d) {
    const DType dtype = static_cast<DType>(d);
    const int64_t bytes = 1003 * SizeOf(dtype);
    const Array a = RandomBytes(bytes, d), b = RandomBytes(bytes, d + 100);
    for (ReduceOp op : kOps) {
      const Array expected = Reduced(dtype, op, a, b);
      Array over_a = a, over_b = b;
      ReduceInto(dtype, op, {a.data(), bytes}, {b.data(), bytes}, {over_b.data(), bytes});
      EXPECT_EQ(over_b, expected) << Name(dtype) << " " << Name(op);
      over_b = b;
      ReduceInto(dtype, op, {over_a.data(), bytes}, {b.data(), bytes}, {over_a.data(), bytes});
      ReduceInto(dtype, op, {a.data(), bytes}, {over_b.data(), bytes}, {over_b.data(), bytes});
      EXPECT_EQ(over_a, expected) << Name(dtype) << " " << Name(op);
      EXPECT_EQ(over_b, expected) << Name(dtype) << " " << Name(op);
      Array shifted(bytes + 1), out(bytes + 3);
      std::memcpy(shifted.data() + 1, a.data(), bytes);
      ReduceInto(dtype, op, {shifted.data() + 1, bytes}, {b.data(), bytes},
                 {out.data() + 3, bytes});
      EXPECT_EQ(Array(out.begin() + 3, out.end()), expected) << Name(dtype) << " " << Name(op);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, EveryTarget,
                         testing::ValuesIn(SupportedTargets().begin(), SupportedTargets().end()),
                         [](const auto& info) { return std::string(Name(info.param)); });

// --- the last step of avg, and the count
// ----------------------------------------------------------

template <typename T>
std::vector<T> Scaled(DType dtype, std::vector<T> values, int world_size) {
  ScaleAvg(
      dtype,
      {reinterpret_cast<std::byte*>(values.data()), static_cast<int64_t>(values.size()), dtype},
      world_size);
  return values;
}

TEST(ScaleAvgTest, IntegersTruncateTowardZero) {
  EXPECT_EQ(Scaled<int32_t>(DType::kInt32, {7, -7, 8, -8, INT32_MIN}, 4),
            (std::vector<int32_t>{1, -1, 2, -2, INT32_MIN / 4}));
  EXPECT_EQ(Scaled<int8_t>(DType::kInt8, {127, -128, 5}, 300), (std::vector<int8_t>{0, 0, 0}));
  EXPECT_EQ(Scaled<uint64_t>(DType::kUint64, {UINT64_MAX}, 2),
            (std::vector<uint64_t>{UINT64_MAX / 2}));
  EXPECT_EQ(Scaled<int64_t>(DType::kInt64, {INT64_MIN, -3}, 2),
            (std::vector<int64_t>{INT64_MIN / 2, -1}));
  EXPECT_EQ(Scaled<uint32_t>(DType::kUint32, {UINT32_MAX}, 3),
            (std::vector<uint32_t>{UINT32_MAX / 3}));
  EXPECT_EQ(Scaled<uint8_t>(DType::kUint8, {255, 2}, 3), (std::vector<uint8_t>{85, 0}));
}

TEST(ScaleAvgTest, FloatsAreMultipliedByTheRoundedInverse) {
  EXPECT_EQ(Scaled<float>(DType::kFloat32, {10.0f, -1.0f}, 3),
            (std::vector<float>{10.0f * (1.0f / 3.0f), -1.0f * (1.0f / 3.0f)}));
  EXPECT_EQ(Scaled<double>(DType::kFloat64, {10.0}, 3), (std::vector<double>{10.0 * (1.0 / 3.0)}));
  const uint16_t half = Fp16FromFloat(10.0f), brain = Bf16FromFloat(10.0f);
  EXPECT_EQ(Scaled<uint16_t>(DType::kFloat16, {half}, 3)[0], Fp16FromFloat(10.0f * (1.0f / 3.0f)));
  EXPECT_EQ(Scaled<uint16_t>(DType::kBfloat16, {brain}, 3)[0],
            Bf16FromFloat(10.0f * (1.0f / 3.0f)));
}

}  // namespace
}  // namespace gradwire
