#include "cli/perf/pattern.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/float16.h"

namespace gradwire {
namespace {

// Primes: no multiple of a slice, shard or block, so that a misplaced piece cannot look right.
constexpr int kExactPeriod = 1021;
constexpr int kNormalPeriod = 65537;

template <typename T>
T Load(ConstView view, int64_t i) {
  T value;
  std::memcpy(&value, view.data + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <typename T>
void Store(View view, int64_t i, T value) {
  std::memcpy(view.data + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

void WriteElement(View view, int64_t i, double value) {
  switch (view.dtype) {
    case DType::kInt8: return Store(view, i, static_cast<int8_t>(value));
    case DType::kUint8: return Store(view, i, static_cast<uint8_t>(value));
    case DType::kInt32: return Store(view, i, static_cast<int32_t>(value));
    case DType::kUint32: return Store(view, i, static_cast<uint32_t>(value));
    case DType::kInt64: return Store(view, i, static_cast<int64_t>(value));
    case DType::kUint64: return Store(view, i, static_cast<uint64_t>(value));
    case DType::kFloat16: return Store(view, i, Fp16FromFloat(static_cast<float>(value)));
    case DType::kFloat32: return Store(view, i, static_cast<float>(value));
    case DType::kFloat64: return Store(view, i, value);
    case DType::kBfloat16: return Store(view, i, Bf16FromFloat(static_cast<float>(value)));
  }
}

double RoundedTo(DType dtype, double value) {
  std::byte bytes[8];
  const View view = {bytes, 1, dtype};
  WriteElement(view, 0, value);
  return ReadElement(view, 0);
}

// The largest n for which all integers up to n are exact in the type.
int64_t LargestExactInteger(DType dtype) {
  switch (dtype) {
    case DType::kInt8: return 127;
    case DType::kUint8: return 255;
    case DType::kBfloat16: return 256;
    case DType::kFloat16: return 2048;
    case DType::kInt32:
    case DType::kUint32:
    case DType::kInt64:
    case DType::kUint64:
    case DType::kFloat32:
    case DType::kFloat64: return 1 << 20;
  }
  return 0;
}

// Rank-dependent, and 0 when added over all ranks.
int Balanced(int rank, int ranks) {
  if (ranks % 2 == 1 && rank == ranks - 1) return 0;
  return rank % 2 == 0 ? 1 : -1;
}

double ExactValue(int64_t most, ReduceOp op, int64_t i, int rank, int ranks) {
  switch (op) {
    case ReduceOp::kSum: return static_cast<double>((i * 7 + rank * 13) % (most + 1));
    case ReduceOp::kProd: return (i + rank) % ranks == 0 ? 2 : 1;
    case ReduceOp::kMax:
    case ReduceOp::kMin: return static_cast<double>((i * 7 + rank * 13) % 101);
    case ReduceOp::kAvg:
      return most < 2 ? 1 : static_cast<double>(1 + i * 7 % (most - 1) + Balanced(rank, ranks));
  }
  return 0;
}

// A well mixed number for each (rank, i); SplitMix64's finaliser.
uint64_t Mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// In (0, 1].
double Uniform(uint64_t bits) { return (static_cast<double>(bits >> 11) + 1) * 0x1p-53; }

}  // namespace

double ReadElement(ConstView view, int64_t i) {
  switch (view.dtype) {
    case DType::kInt8: return Load<int8_t>(view, i);
    case DType::kUint8: return Load<uint8_t>(view, i);
    case DType::kInt32: return Load<int32_t>(view, i);
    case DType::kUint32: return Load<uint32_t>(view, i);
    case DType::kInt64: return static_cast<double>(Load<int64_t>(view, i));
    case DType::kUint64: return static_cast<double>(Load<uint64_t>(view, i));
    case DType::kFloat16: return FloatFromFp16(Load<uint16_t>(view, i));
    case DType::kFloat32: return Load<float>(view, i);
    case DType::kFloat64: return Load<double>(view, i);
    case DType::kBfloat16: return FloatFromBf16(Load<uint16_t>(view, i));
  }
  return 0;
}

Pattern ExactPattern(DType dtype, ReduceOp op, int rank, int ranks) {
  const int64_t most = LargestExactInteger(dtype) / ranks;
  Pattern pattern;
  for (int64_t i = 0; i < kExactPeriod; ++i) {
    pattern.tile.push_back(ExactValue(most, op, i, rank, ranks));
  }
  return pattern;
}

Pattern NormalPattern(DType dtype, int rank) {
  Pattern pattern;
  for (uint64_t i = 0; i < kNormalPeriod; ++i) {
    const uint64_t key = (static_cast<uint64_t>(rank) << 32 | i) * 2;
    const double radius = std::sqrt(-2 * std::log(Uniform(Mixed(key))));
    const double angle = 2 * std::numbers::pi * Uniform(Mixed(key + 1));
    pattern.tile.push_back(RoundedTo(dtype, radius * std::cos(angle)));
  }
  return pattern;
}

Pattern Reduced(const std::vector<Pattern>& by_rank, ReduceOp op) {
  Pattern result = by_rank[0];
  for (size_t r = 1; r < by_rank.size(); ++r) {
    for (size_t i = 0; i < result.tile.size(); ++i) {
      double& value = result.tile[i];
      const double next = by_rank[r].tile[i];
      switch (op) {
        case ReduceOp::kSum:
        case ReduceOp::kAvg: value += next; break;
        case ReduceOp::kProd: value *= next; break;
        case ReduceOp::kMax: value = std::max(value, next); break;
        case ReduceOp::kMin: value = std::min(value, next); break;
      }
    }
  }
  if (op == ReduceOp::kAvg) {
    for (double& value : result.tile) value /= static_cast<double>(by_rank.size());
  }
  return result;
}

void FillWith(const Pattern& pattern, int64_t first, View view) {
  const auto period = static_cast<int64_t>(pattern.tile.size());
  const int64_t head = std::min(period, view.elems);
  for (int64_t i = 0; i < head; ++i) WriteElement(view, i, pattern.at(first + i));
  // The rest repeats what stands one period before it; doubling keeps the copies large.
  const int64_t size = SizeOf(view.dtype);
  for (int64_t done = head; done < view.elems;) {
    const int64_t copied = std::min(done / period * period, view.elems - done);
    std::memcpy(view.data + done * size, view.data, static_cast<size_t>(copied * size));
    done += copied;
  }
}

int64_t CountDifferent(const Pattern& pattern, int64_t first, ConstView view, double tolerance) {
  const auto period = static_cast<int64_t>(pattern.tile.size());
  int64_t different = 0;
  for (int64_t i = 0, at = first % period; i < view.elems; ++i) {
    const double distance = std::abs(ReadElement(view, i) - pattern.tile[static_cast<size_t>(at)]);
    if (!(distance <= tolerance)) ++different;
    if (++at == period) at = 0;
  }
  return different;
}

}  // namespace gradwire
