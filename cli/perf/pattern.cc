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

// The largest n for which all integers up to n are exact in the type, and in double.
int64_t LargestExactInteger(DType dtype) {
  switch (dtype) {
    case DType::kInt8: return INT8_MAX;
    case DType::kUint8: return UINT8_MAX;
    case DType::kBfloat16: return 1 << 8;
    case DType::kFloat16: return 1 << 11;
    case DType::kFloat32: return 1 << 24;
    case DType::kInt32: return INT32_MAX;
    case DType::kUint32: return UINT32_MAX;
    case DType::kInt64:
    case DType::kUint64:
    case DType::kFloat64: return int64_t{1} << 53;
  }
  return 0;
}

bool IsSigned(DType dtype) {
  return dtype != DType::kUint8 && dtype != DType::kUint32 && dtype != DType::kUint64;
}

// A well mixed number for each (rank, i); SplitMix64's finaliser.
uint64_t Mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// From 0 to `most`, another one for each (rank, i).
int64_t Drawn(int64_t most, int64_t i, int rank) {
  const uint64_t key = static_cast<uint64_t>(rank) << 32 | static_cast<uint64_t>(i);
  return static_cast<int64_t>(Mixed(key) % (static_cast<uint64_t>(most) + 1));
}

// The same for all ranks.
constexpr int kAllRanks = 1 << 20;

// Where the type is too small for all ranks only some hold anything, others at each element.
int64_t SumValue(int64_t most, int64_t i, int rank, int ranks) {
  constexpr int64_t kLeastRange = 7;
  const int64_t may_hold = std::min<int64_t>(ranks, most / kLeastRange);
  const int64_t stride = (ranks + may_hold - 1) / may_hold;
  const int64_t hold = (ranks + stride - 1) / stride;
  return (i + rank) % stride == 0 ? Drawn(most / hold, i, rank) : 0;
}

// Two ranks hold a factor, others at each element.
int64_t ProductValue(int64_t i, int rank, int ranks) {
  constexpr int64_t kLargestFactor = 11;  // the square fits all types
  const int64_t one = Drawn(ranks - 1, i, kAllRanks);
  const int64_t two = ranks < 2 ? one : (one + 1 + Drawn(ranks - 2, i, kAllRanks + 1)) % ranks;
  return rank == one || rank == two ? 1 + Drawn(kLargestFactor - 1, i, rank) : 1;
}

// One rank alone holds the largest, another one at each element.
int64_t MaxValue(int64_t most, int64_t i, int rank, int ranks) {
  const int64_t largest = 1 + Drawn(most - 1, i, kAllRanks);
  return rank == Drawn(ranks - 1, i, kAllRanks + 1) ? largest : Drawn(largest - 1, i, rank);
}

// Rank-dependent, and 0 when added over all ranks.
int Balanced(int rank, int ranks) {
  if (ranks % 2 == 1 && rank == ranks - 1) return 0;
  return rank % 2 == 0 ? 1 : -1;
}

// The average is a whole number. In a type that cannot hold the number of ranks only 0 is one.
int64_t AverageValue(int64_t most, int64_t i, int rank, int ranks) {
  const int64_t average = Drawn(most / ranks, i, kAllRanks);
  return average == 0 ? 0 : average + Balanced(rank, ranks);
}

int64_t ExactValue(int64_t most, ReduceOp op, int64_t i, int rank, int ranks) {
  switch (op) {
    case ReduceOp::kSum: return SumValue(most, i, rank, ranks);
    case ReduceOp::kProd: return ProductValue(i, rank, ranks);
    case ReduceOp::kMax: return MaxValue(most, i, rank, ranks);
    case ReduceOp::kMin: return most - MaxValue(most, i, rank, ranks);
    case ReduceOp::kAvg: return AverageValue(most, i, rank, ranks);
  }
  return 0;
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
  // Float32 has four bits left: a result that is off by a part of one shows.
  const int64_t most = std::min(LargestExactInteger(dtype), int64_t{1} << 20);
  Pattern pattern;
  for (int64_t i = 0; i < kExactPeriod; ++i) {
    pattern.tile.push_back(static_cast<double>(ExactValue(most, op, i, rank, ranks)));
  }
  return pattern;
}

Pattern MovedPattern(DType dtype, int rank) {
  const int64_t most = LargestExactInteger(dtype);
  Pattern pattern;
  for (int64_t i = 0; i < kExactPeriod; ++i) {
    const int64_t value = IsSigned(dtype) ? Drawn(2 * most, i, rank) - most : Drawn(most, i, rank);
    pattern.tile.push_back(static_cast<double>(value));
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
        case ReduceOp::kAvg: value += next; break;  // see Averaged
        case ReduceOp::kProd: value *= next; break;
        case ReduceOp::kMax: value = std::max(value, next); break;
        case ReduceOp::kMin: value = std::min(value, next); break;
      }
    }
  }
  return result;
}

Pattern Averaged(const Pattern& sums, DType dtype, int ranks) {
  Pattern result = sums;
  for (double& value : result.tile) {
    if (dtype == DType::kFloat64) {
      value *= 1.0 / ranks;
    } else if (IsFloat(dtype)) {
      value = RoundedTo(dtype, static_cast<float>(value) * (1.0f / static_cast<float>(ranks)));
    } else {
      value = std::trunc(value / ranks);
    }
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

int64_t CountDifferent(const Pattern& pattern, int64_t first, ConstView view) {
  const auto period = static_cast<int64_t>(pattern.tile.size());
  int64_t different = 0;
  for (int64_t i = 0, at = first % period; i < view.elems; ++i) {
    if (ReadElement(view, i) != pattern.tile[static_cast<size_t>(at)]) ++different;
    if (++at == period) at = 0;
  }
  return different;
}

}  // namespace gradwire
