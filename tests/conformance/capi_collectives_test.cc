// Every element type x operation x exact collective through the C API, against the plainest
// reference: integers of all bits that wrap, floats whose results have no rounding.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/dtype.h"
#include "base/float16.h"
#include "base/hash.h"
#include "tests/lib/capi_ranks.h"

namespace gradwire {
namespace {

// Small enough that a count of kPrime is several slices for every collective.
constexpr const char* kSettings = "slice_elems=256";
constexpr size_t kPrime = 1009;
constexpr size_t kTail = 16;  // bytes behind recvbuff that must stay as they are
constexpr std::byte kFill{0xA5};

uint64_t Random(int rank, size_t i) {
  return Hasher().Add(static_cast<uint64_t>(rank)).Add(static_cast<uint64_t>(i)).digest();
}

// One element type: contributions, and the reduction as the header promises it.
template <typename T>
struct Integer {
  using Value = T;
  static T Contribution(int rank, size_t i, gwRedOp_t) { return static_cast<T>(Random(rank, i)); }
  static T Reduce(gwRedOp_t op, T a, T b) {
    using Wraps = uint64_t;
    switch (op) {
      case gwSum:
      case gwAvg: return static_cast<T>(static_cast<Wraps>(a) + static_cast<Wraps>(b));
      case gwProd: return static_cast<T>(static_cast<Wraps>(a) * static_cast<Wraps>(b));
      case gwMax: return a < b ? b : a;
      case gwMin: return a < b ? a : b;
    }
    return 0;
  }
  static T Average(T sum, int ranks) { return static_cast<T>(sum / static_cast<T>(ranks)); }
  static void Store(T value, std::byte* at) { std::memcpy(at, &value, sizeof value); }
};

struct Fp16 {
  static uint16_t Bits(float value) { return Fp16FromFloat(value); }
};
struct Bf16 {
  static uint16_t Bits(float value) { return Bf16FromFloat(value); }
};

template <typename T, typename Narrow = void>
struct Float {
  using Value = T;
  static T Contribution(int rank, size_t i, gwRedOp_t op) {
    const auto random = static_cast<int>(Random(rank, i) % 16);
    if (op == gwProd) return static_cast<T>(random % 2 == 0 ? 2 : -1);
    return static_cast<T>(random - 8);
  }
  static T Reduce(gwRedOp_t op, T a, T b) {
    switch (op) {
      case gwSum:
      case gwAvg: return a + b;
      case gwProd: return a * b;
      case gwMax: return a < b ? b : a;
      case gwMin: return a < b ? a : b;
    }
    return 0;
  }
  static T Average(T sum, int ranks) { return sum * (T{1} / static_cast<T>(ranks)); }
  static void Store(T value, std::byte* at) {
    if constexpr (std::is_void_v<Narrow>) {
      std::memcpy(at, &value, sizeof value);
    } else {
      const uint16_t bits = Narrow::Bits(value);
      std::memcpy(at, &bits, sizeof bits);
    }
  }
};

// What one rank passes and expects.
struct Call {
  gwDataType_t dtype;
  gwRedOp_t op;
  size_t count;
  int rank, world_size;
  gwComm_t comm;

  size_t bytes() const { return count * static_cast<size_t>(SizeOf(static_cast<DType>(dtype))); }
};

using Memory = std::vector<std::byte>;

template <typename E>
Memory Contribution(const Call& call, int rank, size_t first, size_t count) {
  const auto size = static_cast<size_t>(SizeOf(static_cast<DType>(call.dtype)));
  Memory out(count * size);
  for (size_t i = 0; i < count; ++i) {
    E::Store(E::Contribution(rank, first + i, call.op), out.data() + i * size);
  }
  return out;
}

template <typename E>
Memory Reduced(const Call& call, size_t first, size_t count) {
  const auto size = static_cast<size_t>(SizeOf(static_cast<DType>(call.dtype)));
  Memory out(count * size);
  for (size_t i = 0; i < count; ++i) {
    typename E::Value value = E::Contribution(0, first + i, call.op);
    for (int r = 1; r < call.world_size; ++r) {
      value = E::Reduce(call.op, value, E::Contribution(r, first + i, call.op));
    }
    if (call.op == gwAvg) value = E::Average(value, call.world_size);
    E::Store(value, out.data() + i * size);
  }
  return out;
}

// recvbuff with a tail that nobody may touch.
class Output {
 public:
  explicit Output(size_t bytes) : memory_(bytes + kTail, kFill) {}
  std::byte* data() { return memory_.data(); }
  bool Holds(const Memory& expected, size_t at = 0) const {
    return std::equal(expected.begin(), expected.end(), memory_.begin() + at);
  }
  bool intact() const {
    for (size_t i = memory_.size() - kTail; i < memory_.size(); ++i) {
      if (memory_[i] != kFill) return false;
    }
    return true;
  }
  void Put(const Memory& bytes, size_t at = 0) {
    std::copy(bytes.begin(), bytes.end(), memory_.begin() + at);
  }

 private:
  Memory memory_;
};

#define ASSERT_DONE(call) ASSERT_EQ(call, gwSuccess) << gwGetLastError(c.comm)

template <typename E>
void CheckAllReduce(const Call& c) {
  const Memory mine = Contribution<E>(c, c.rank, 0, c.count), expected = Reduced<E>(c, 0, c.count);
  Output out(c.bytes()), in_place(c.bytes());
  ASSERT_DONE(gwAllReduce(mine.data(), out.data(), c.count, c.dtype, c.op, c.comm, nullptr));
  ASSERT_TRUE(out.Holds(expected) && out.intact());
  in_place.Put(mine);
  ASSERT_DONE(
      gwAllReduce(in_place.data(), in_place.data(), c.count, c.dtype, c.op, c.comm, nullptr));
  ASSERT_TRUE(in_place.Holds(expected) && in_place.intact()) << "in place";
}

template <typename E>
void CheckReduce(const Call& c) {
  const Memory mine = Contribution<E>(c, c.rank, 0, c.count), expected = Reduced<E>(c, 0, c.count);
  for (int root = 0; root < c.world_size; ++root) {
    Output out(c.bytes()), in_place(c.bytes());
    // Only the root needs memory for the result.
    ASSERT_DONE(gwReduce(mine.data(), c.rank == root ? out.data() : nullptr, c.count, c.dtype, c.op,
                         root, c.comm, nullptr));
    ASSERT_TRUE(out.intact() && (c.rank != root || out.Holds(expected))) << "root " << root;
    in_place.Put(mine);
    ASSERT_DONE(
        gwReduce(in_place.data(), in_place.data(), c.count, c.dtype, c.op, root, c.comm, nullptr));
    ASSERT_TRUE(in_place.intact() && in_place.Holds(c.rank == root ? expected : mine))
        << "in place, root " << root;
  }
}

template <typename E>
void CheckReduceScatter(const Call& c) {
  const size_t all = c.count * static_cast<size_t>(c.world_size);
  const size_t first = c.count * static_cast<size_t>(c.rank);
  const size_t offset = c.bytes() * static_cast<size_t>(c.rank);
  const Memory mine = Contribution<E>(c, c.rank, 0, all);
  const Memory expected = Reduced<E>(c, first, c.count);
  Output out(c.bytes()), in_place(mine.size());
  ASSERT_DONE(gwReduceScatter(mine.data(), out.data(), c.count, c.dtype, c.op, c.comm, nullptr));
  ASSERT_TRUE(out.Holds(expected) && out.intact());
  in_place.Put(mine);
  ASSERT_DONE(gwReduceScatter(in_place.data(), in_place.data() + offset, c.count, c.dtype, c.op,
                              c.comm, nullptr));
  ASSERT_TRUE(in_place.Holds(expected, offset) && in_place.intact()) << "in place";
}

template <typename E>
void CheckBroadcast(const Call& c) {
  for (int root = 0; root < c.world_size; ++root) {
    const Memory expected = Contribution<E>(c, root, 0, c.count);
    Output out(c.bytes()), in_place(c.bytes());
    ASSERT_DONE(gwBroadcast(c.rank == root ? expected.data() : nullptr, out.data(), c.count,
                            c.dtype, root, c.comm, nullptr));
    ASSERT_TRUE(out.Holds(expected) && out.intact()) << "root " << root;
    in_place.Put(Contribution<E>(c, c.rank, 0, c.count));
    ASSERT_DONE(
        gwBroadcast(in_place.data(), in_place.data(), c.count, c.dtype, root, c.comm, nullptr));
    ASSERT_TRUE(in_place.Holds(expected) && in_place.intact()) << "in place, root " << root;
  }
}

template <typename E>
void CheckAllGather(const Call& c) {
  const size_t bytes = c.bytes(), all = bytes * static_cast<size_t>(c.world_size);
  const size_t offset = bytes * static_cast<size_t>(c.rank);
  const Memory mine = Contribution<E>(c, c.rank, 0, c.count);
  Output out(all), in_place(all);
  ASSERT_DONE(gwAllGather(mine.data(), out.data(), c.count, c.dtype, c.comm, nullptr));
  in_place.Put(mine, offset);
  ASSERT_DONE(
      gwAllGather(in_place.data() + offset, in_place.data(), c.count, c.dtype, c.comm, nullptr));
  for (int r = 0; r < c.world_size; ++r) {
    const Memory expected = Contribution<E>(c, r, 0, c.count);
    ASSERT_TRUE(out.Holds(expected, bytes * static_cast<size_t>(r))) << "rank " << r;
    ASSERT_TRUE(in_place.Holds(expected, bytes * static_cast<size_t>(r))) << "in place, " << r;
  }
  ASSERT_TRUE(out.intact() && in_place.intact());
}

template <typename E>
void CheckAllToAll(const Call& c) {
  const size_t bytes = c.bytes(), ranks = static_cast<size_t>(c.world_size);
  Output out(bytes * ranks);
  const Memory mine = Contribution<E>(c, c.rank, 0, c.count * ranks);
  ASSERT_DONE(gwAllToAll(mine.data(), out.data(), c.count, c.dtype, c.comm, nullptr));
  for (int r = 0; r < c.world_size; ++r) {
    const size_t first = c.count * static_cast<size_t>(c.rank);
    ASSERT_TRUE(out.Holds(Contribution<E>(c, r, first, c.count), bytes * static_cast<size_t>(r)))
        << "rank " << r;
  }
  ASSERT_TRUE(out.intact());
}

template <typename E>
void CheckType(gwDataType_t dtype, int rank, int world_size, gwComm_t comm) {
  for (const size_t count : {size_t{0}, size_t{1}, kPrime}) {
    Call c = {dtype, gwSum, count, rank, world_size, comm};
    SCOPED_TRACE(testing::Message() << Name(static_cast<DType>(dtype)) << ", count " << count
                                    << ", rank " << rank << " of " << world_size);
    for (int op = 0; op < GW_NUM_OPS; ++op) {
      c.op = static_cast<gwRedOp_t>(op);
      SCOPED_TRACE(Name(static_cast<ReduceOp>(op)));
      ASSERT_NO_FATAL_FAILURE(CheckAllReduce<E>(c));
      ASSERT_NO_FATAL_FAILURE(CheckReduce<E>(c));
      ASSERT_NO_FATAL_FAILURE(CheckReduceScatter<E>(c));
    }
    c.op = gwSum;
    ASSERT_NO_FATAL_FAILURE(CheckBroadcast<E>(c));
    ASSERT_NO_FATAL_FAILURE(CheckAllGather<E>(c));
    ASSERT_NO_FATAL_FAILURE(CheckAllToAll<E>(c));
    ASSERT_DONE(gwBarrier(comm, nullptr));
  }
}

using TypeCheck = void (*)(gwDataType_t dtype, int rank, int world_size, gwComm_t comm);

// In the order of gwDataType_t.
constexpr TypeCheck kTypes[GW_NUM_TYPES] = {
    &CheckType<Integer<int8_t>>,    &CheckType<Integer<uint8_t>>, &CheckType<Integer<int32_t>>,
    &CheckType<Integer<uint32_t>>,  &CheckType<Integer<int64_t>>, &CheckType<Integer<uint64_t>>,
    &CheckType<Float<float, Fp16>>, &CheckType<Float<float>>,     &CheckType<Float<double>>,
    &CheckType<Float<float, Bf16>>};

class CapiCollectives : public testing::TestWithParam<int> {};

TEST_P(CapiCollectives, AreExactForAllTypesAndOperations) {
  const int world_size = GetParam();
  RunRanks(world_size, kSettings, [&](int rank, gwComm_t comm) {
    for (int type = 0; type < GW_NUM_TYPES; ++type) {
      ASSERT_NO_FATAL_FAILURE(
          kTypes[type](static_cast<gwDataType_t>(type), rank, world_size, comm));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, CapiCollectives, testing::Range(1, 6));

}  // namespace
}  // namespace gradwire
