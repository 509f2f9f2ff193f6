// Exact collectives on the callers' own memory: every layout, in place as NCCL defines it, cut into
// slices, by every algorithm.
#include "collectives/schemes/raw/raw_slice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "collectives/schemes/slice_world.h"

namespace gradwire {
namespace {

struct Case {
  const AlgorithmRow* row;
  int n = 1, root = 0;
  int64_t count = 0, per_slice = 1;
  bool in_place = false;

  std::string ToString() const {
    return row->name + " " + std::string(Name(row->collective)) + ", " + std::to_string(n) +
           " ranks, root " + std::to_string(root) + ", count " + std::to_string(count) +
           ", slices of " + std::to_string(per_slice) + (in_place ? ", in place" : "");
  }
  bool SendIsWide() const {
    return row->collective == Collective::kReduceScatter ||
           row->collective == Collective::kAllToAll;
  }
  bool RecvIsWide() const {
    return row->collective == Collective::kAllGather || row->collective == Collective::kAllToAll;
  }
  int64_t SendElems() const { return SendIsWide() ? count * n : count; }
  int64_t RecvElems() const { return RecvIsWide() ? count * n : count; }
};

int64_t ValueOf(int rank, int64_t i) { return (int64_t{1} << rank) * 1000003 + 7 * i + rank; }
int64_t SumAt(int n, int64_t i) {
  int64_t sum = 0;
  for (int rank = 0; rank < n; ++rank) sum += ValueOf(rank, i);
  return sum;
}

int64_t Expected(const Case& c, int rank, int64_t i) {
  switch (c.row->collective) {
    case Collective::kAllReduce:
    case Collective::kReduce: return SumAt(c.n, i);
    case Collective::kBroadcast: return ValueOf(c.root, i);
    case Collective::kAllGather: return ValueOf(static_cast<int>(i / c.count), i % c.count);
    case Collective::kReduceScatter: return SumAt(c.n, rank * c.count + i);
    case Collective::kAllToAll:
      return ValueOf(static_cast<int>(i / c.count), rank * c.count + i % c.count);
    case Collective::kBarrier: break;
  }
  return 0;
}

// One rank's arrays; in place the shorter lies inside the longer.
struct Arrays {
  std::vector<int64_t> apart, memory;
  int64_t* send = nullptr;
  int64_t* recv = nullptr;
};

Arrays MakeArrays(const Case& c, int rank) {
  Arrays a;
  a.memory.assign(std::max(c.SendElems(), c.RecvElems()) + 1, -5);
  a.apart.assign(c.SendElems() + 1, -5);
  a.recv = a.memory.data();
  a.send = a.apart.data();
  if (c.in_place) {
    a.send = c.RecvIsWide() ? a.memory.data() + rank * c.count : a.memory.data();
    a.recv = c.SendIsWide() ? a.memory.data() + rank * c.count : a.memory.data();
  }
  for (int64_t i = 0; i < c.SendElems(); ++i) a.send[i] = ValueOf(rank, i);
  return a;
}

void CheckCase(const Case& c) {
  SCOPED_TRACE(c.ToString());
  const auto schedules = PrepareAll(*c.row, c.n, c.root);
  std::vector<Arrays> arrays;
  for (int rank = 0; rank < c.n; ++rank) arrays.push_back(MakeArrays(c, rank));
  int64_t first = 0;
  do {
    const int64_t elems = std::min(c.per_slice, c.count - first);
    std::vector<std::unique_ptr<SliceOp>> slices;
    for (int rank = 0; rank < c.n; ++rank) {
      const RawOp op = {.collective = c.row->collective,
                        .send = reinterpret_cast<std::byte*>(arrays[rank].send),
                        .recv = reinterpret_cast<std::byte*>(arrays[rank].recv),
                        .count = c.count,
                        .dtype = DType::kInt64,
                        .rank = rank,
                        .world_size = c.n,
                        .root = c.root};
      slices.push_back(std::make_unique<RawSlice>(op, first, elems, schedules[rank].get()));
    }
    const Status status = RunSlices(slices, /*seed=*/first + 1);
    ASSERT_TRUE(status.ok()) << status.ToString();
    first += c.per_slice;
  } while (first < c.count);
  for (int rank = 0; rank < c.n; ++rank) {
    const bool promised = c.row->collective != Collective::kBarrier &&
                          (c.row->collective != Collective::kReduce || rank == c.root);
    for (int64_t i = 0; promised && i < c.RecvElems(); ++i) {
      ASSERT_EQ(arrays[rank].recv[i], Expected(c, rank, i)) << "rank " << rank << " at " << i;
    }
    ASSERT_EQ(arrays[rank].memory.back(), -5) << "written behind the array";
    for (int64_t i = 0; !c.in_place && i < c.SendElems(); ++i) {
      ASSERT_EQ(arrays[rank].send[i], ValueOf(rank, i)) << "the input was written";
    }
  }
}

TEST(RawSlice, EveryCollectiveInEveryLayout) {
  for (const AlgorithmRow& row : Algorithms()) {
    if (row.encoded) continue;
    const bool rooted =
        row.collective == Collective::kReduce || row.collective == Collective::kBroadcast;
    for (int n : {1, 2, 3, 4, 5}) {
      for (int root = 0; root < (rooted ? n : 1); ++root) {
        for (int64_t count : {0, 1, 40, 177}) {
          for (bool in_place : {false, true}) {
            if (in_place && row.collective == Collective::kAllToAll) continue;
            if (row.collective == Collective::kBarrier && count > 0) continue;
            ASSERT_NO_FATAL_FAILURE(CheckCase({&row, n, root, count, 64, in_place}));
            ASSERT_NO_FATAL_FAILURE(CheckCase({&row, n, root, count, 1000, in_place}));
          }
        }
      }
    }
  }
}

// A region is as long as the shards in it, one by one.
TEST(RawSlice, RegionsAreTheSumsOfTheirShards) {
  for (const AlgorithmRow& row : Algorithms()) {
    if (row.encoded) continue;
    for (int n = 1; n <= 9; ++n) {
      const auto schedules = PrepareAll(row, n, /*root=*/0);
      for (int rank = 0; rank < n; ++rank) {
        const RawOp op = {.collective = row.collective,
                          .count = 1000,
                          .dtype = DType::kFloat16,
                          .rank = rank,
                          .world_size = n};
        const RawSlice slice(op, 0, op.count, schedules[rank].get());
        for (const Step& step : schedules[rank]->schedule.steps) {
          for (const Region& region : {step.src, step.arg, step.dst}) {
            int64_t sum = 0;
            for (int32_t i = 0; i < region.count; ++i)
              sum += slice.MessageBytes({region.buffer, region.first + i, 1});
            ASSERT_EQ(slice.MessageBytes(region), sum) << row.name << ", rank " << rank;
          }
        }
      }
    }
  }
}

TEST(RawSlice, SlicesStayWithinTheBound) {
  constexpr int64_t kSliceElems = 4096;
  for (const AlgorithmRow& row : Algorithms()) {
    for (int n : {1, 3, 8, 16}) {
      for (DType dtype : {DType::kInt8, DType::kFloat16, DType::kFloat32, DType::kInt64}) {
        const RawOp op = {.collective = row.collective, .dtype = dtype, .world_size = n};
        const int64_t elems = RawSliceElems(op, kSliceElems);
        const bool wide = row.collective == Collective::kAllGather ||
                          row.collective == Collective::kReduceScatter ||
                          row.collective == Collective::kAllToAll;
        EXPECT_LE(elems * (wide ? n : 1) * SizeOf(dtype), kSliceElems * kMaxElementBytes);
        EXPECT_EQ(elems * SizeOf(dtype) % 64, 0);
        EXPECT_GT(elems, 0);
      }
    }
  }
}

// Two ranks' all-reduce of `elems` floats in slices that begin behind the arrays' begin.
std::vector<float> AllReduceTwo(std::vector<float> a, std::vector<float> b, ReduceOp reduce,
                                uint64_t* nonfinite) {
  const StatusOr<const AlgorithmRow*> row = FindAlgorithm(Collective::kAllReduce, "ring");
  const auto schedules = PrepareAll(**row, 2);
  const auto count = static_cast<int64_t>(a.size());
  for (int64_t first = 0; first < count; first += 1000) {
    std::vector<std::unique_ptr<SliceOp>> slices;
    for (int rank = 0; rank < 2; ++rank) {
      std::vector<float>& array = rank == 0 ? a : b;
      const RawOp op = {.send = reinterpret_cast<std::byte*>(array.data()),
                        .recv = reinterpret_cast<std::byte*>(array.data()),
                        .count = count,
                        .op = reduce,
                        .rank = rank,
                        .world_size = 2,
                        .count_nonfinite = true};
      slices.push_back(std::make_unique<RawSlice>(op, first, std::min<int64_t>(1000, count - first),
                                                  schedules[rank].get()));
    }
    EXPECT_TRUE(RunSlices(slices, 7).ok());
    EXPECT_EQ(slices[0]->stats().nonfinite, slices[1]->stats().nonfinite);
    *nonfinite += slices[0]->stats().nonfinite;
  }
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
  return a;
}

TEST(RawSlice, TellsThatThereIsNoMemory) {
  constexpr int64_t kTooMuch = int64_t{1} << 48;
  for (const char* algorithm : {"ring", "recursive_doubling"}) {
    SCOPED_TRACE(algorithm);
    const StatusOr<const AlgorithmRow*> row = FindAlgorithm(Collective::kAllReduce, algorithm);
    ASSERT_TRUE(row.ok());
    // Of all ranks some have scratch.
    int without_memory = 0;
    for (const auto& schedule : PrepareAll(**row, 3)) {
      RawSlice slice({.count = kTooMuch, .world_size = 3}, 0, kTooMuch, schedule.get());
      const StatusOr<SliceAction> action = slice.Next();
      without_memory += !action.ok() && action.status().code() == gwSystemError;
    }
    EXPECT_EQ(without_memory > 0, std::string(algorithm) == "recursive_doubling");
  }
}

TEST(RawSlice, AverageIsTheSumTimesOneOverN) {
  std::vector<float> a(2500), b(2500);
  for (size_t i = 0; i < a.size(); ++i) a[i] = 0.1f * i, b[i] = 3.7f - i;
  uint64_t nonfinite = 0;
  const std::vector<float> avg = AllReduceTwo(a, b, ReduceOp::kAvg, &nonfinite);
  for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(avg[i], (a[i] + b[i]) * 0.5f) << i;
  EXPECT_EQ(nonfinite, 0u);
}

TEST(RawSlice, CountsWhatIsNotFinite) {
  std::vector<float> a(2500, 1.0f), b(2500, 2.0f);
  a[3] = std::numeric_limits<float>::infinity();
  b[1700] = std::numeric_limits<float>::quiet_NaN();
  a[2499] = b[2499] = std::numeric_limits<float>::max();
  uint64_t nonfinite = 0;
  const std::vector<float> sum = AllReduceTwo(a, b, ReduceOp::kSum, &nonfinite);
  EXPECT_EQ(nonfinite, 3u);
  EXPECT_TRUE(std::isnan(sum[1700]));
}

}  // namespace
}  // namespace gradwire
