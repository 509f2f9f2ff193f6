// Every algorithm of the registry moves real numbers right: exact sums, whatever the timing, in
// place or not, down to sizes at which shards are empty.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "collectives/executor.h"
#include "collectives/schedule.h"
#include "collectives/verify/interpreter.h"
#include "collectives/verify/reference_work.h"

namespace gradwire {
namespace {

struct Case {
  const AlgorithmRow* row;
  int n;
  int root = 0;
  int64_t elems = 0;  // per rank and, where every rank gives to every rank, per pair
  bool in_place = false;
  uint64_t seed = 0;

  std::string ToString() const {
    return row->name + " " + std::string(Name(row->collective)) + ", " + std::to_string(n) +
           " ranks, root " + std::to_string(root) + ", " + std::to_string(elems) + " elements, " +
           (in_place ? "in place" : "apart") + ", seed " + std::to_string(seed);
  }
};

Partition PartitionOf(const Case& c, int32_t shards) {
  // World size 1 has one shard in any case.
  return EvenPartition(GivesToAll(c.row->collective) ? c.elems * c.n : c.elems, shards);
}

// Different for every rank and index, and so is every sum of some of the ranks.
int64_t ValueOf(int rank, int64_t index) {
  return (int64_t{1} << rank) * 1000003 + 7 * index + rank;
}

int64_t SumAt(int n, int64_t index) {
  int64_t sum = 0;
  for (int rank = 0; rank < n; ++rank) sum += ValueOf(rank, index);
  return sum;
}

class TestWorld {
 public:
  TestWorld(const Case& c, DType dtype) : case_(c) {
    for (int rank = 0; rank < c.n; ++rank) {
      schedules_.push_back(std::make_unique<PreparedSchedule>(c.row->make(rank, c.n, c.root)));
      const Schedule& schedule = schedules_.back()->schedule;
      partition_ = PartitionOf(c, schedule.logical_shards);
      works_.push_back(std::make_unique<ReferenceWork>(
          &schedule, ReferenceOp{.partition = partition_, .dtype = dtype, .in_place = c.in_place}));
    }
  }

  Status Run() {
    std::vector<InterpretedRank> ranks;
    for (int rank = 0; rank < case_.n; ++rank) {
      ranks.push_back({schedules_[rank].get(), works_[rank].get()});
    }
    return Interpret(ranks, case_.seed);
  }

  // The part of rank's input that the collective reads.
  View Given(int rank) {
    const View whole = works_[rank]->input();
    return case_.row->collective == Collective::kAllGather ? Shard(whole, rank) : whole;
  }
  // The part of its output that the collective promises.
  View Received(int rank) {
    const View whole = works_[rank]->output();
    if (case_.row->collective == Collective::kReduceScatter) return Shard(whole, rank);
    if (case_.row->collective == Collective::kBarrier) return whole.Sub(0, 0);
    if (case_.row->collective == Collective::kReduce && rank != case_.root) return whole.Sub(0, 0);
    return whole;
  }
  int64_t per_rank() const { return partition_.begin.back() / case_.n; }

 private:
  View Shard(View whole, int rank) const { return whole.Sub(rank * case_.elems, case_.elems); }
  const Case case_;
  Partition partition_;
  std::vector<std::unique_ptr<PreparedSchedule>> schedules_;
  std::vector<std::unique_ptr<ReferenceWork>> works_;
};

// What element i of Received(rank) must be, when element k of Given(r) was ValueOf(r, k).
int64_t Expected(const Case& c, int rank, int64_t i) {
  switch (c.row->collective) {
    case Collective::kAllReduce:
    case Collective::kReduce: return SumAt(c.n, i);
    case Collective::kBroadcast: return ValueOf(c.root, i);
    case Collective::kAllGather: return ValueOf(static_cast<int>(i / c.elems), i % c.elems);
    case Collective::kReduceScatter: return SumAt(c.n, rank * c.elems + i);
    case Collective::kAllToAll:
      return ValueOf(static_cast<int>(i / c.elems), rank * c.elems + i % c.elems);
    case Collective::kBarrier: break;
  }
  return 0;
}

void CheckExact(const Case& c) {
  SCOPED_TRACE(c.ToString());
  TestWorld world(c, DType::kInt64);
  for (int rank = 0; rank < c.n; ++rank) {
    const View given = world.Given(rank);
    for (int64_t i = 0; i < given.elems; ++i) given.as<int64_t>()[i] = ValueOf(rank, i);
  }
  const Status status = world.Run();
  ASSERT_TRUE(status.ok()) << status.ToString();
  for (int rank = 0; rank < c.n; ++rank) {
    const View received = world.Received(rank);
    for (int64_t i = 0; i < received.elems; ++i) {
      ASSERT_EQ(received.as<int64_t>()[i], Expected(c, rank, i)) << "rank " << rank << " at " << i;
    }
    if (c.in_place) continue;
    const View given = world.Given(rank);
    for (int64_t i = 0; i < given.elems; ++i) {
      ASSERT_EQ(given.as<int64_t>()[i], ValueOf(rank, i)) << "the input was written";
    }
  }
}

// Bytes of everything received, with random floats in the inputs.
std::vector<std::byte> FloatResult(const Case& c) {
  TestWorld world(c, DType::kFloat32);
  for (int rank = 0; rank < c.n; ++rank) {
    RandomStream random(/*seed=*/5, rank);
    const View given = world.Given(rank);
    for (int64_t i = 0; i < given.elems; ++i) {
      given.as<float>()[i] = static_cast<float>(random.Unit() - 0.5);
    }
  }
  const Status status = world.Run();
  EXPECT_TRUE(status.ok()) << status.ToString();
  std::vector<std::byte> bytes;
  for (int rank = 0; rank < c.n; ++rank) {
    const View view = world.Received(rank);
    if (view.bytes() > 0) bytes.insert(bytes.end(), view.data, view.data + view.bytes());
  }
  return bytes;
}

bool IsRooted(Collective c) { return c == Collective::kReduce || c == Collective::kBroadcast; }

class AlgorithmsTest : public testing::TestWithParam<const AlgorithmRow*> {
 protected:
  template <typename Check>
  void ForEachWorld(Check check) {
    for (int n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16}) {
      for (int root = 0; root < (IsRooted(GetParam()->collective) ? n : 1); ++root) {
        check(Case{.row = GetParam(), .n = n, .root = root});
        if (HasFatalFailure()) return;
      }
    }
  }
  bool HasInPlace() const { return GetParam()->collective != Collective::kAllToAll; }
};

TEST_P(AlgorithmsTest, ExactSumsAtEverySize) {
  uint64_t seed = 0;
  ForEachWorld([&](Case c) {
    for (int64_t elems : {0, 1, c.n - 1, c.n, c.n + 1, 211}) {
      for (bool in_place : {false, true}) {
        if (in_place && !HasInPlace()) continue;
        c.elems = elems;
        c.in_place = in_place;
        c.seed = ++seed;
        CheckExact(c);
        if (HasFatalFailure()) return;
      }
    }
  });
}

TEST_P(AlgorithmsTest, TimingAndPlaceDoNotChangeBits) {
  ForEachWorld([&](Case c) {
    c.elems = 53;
    const std::vector<std::byte> first = FloatResult(c);
    for (uint64_t seed : {1, 2, 3}) {
      for (bool in_place : {false, true}) {
        if (in_place && !HasInPlace()) continue;
        c.seed = seed;
        c.in_place = in_place;
        ASSERT_EQ(FloatResult(c), first) << c.ToString();
      }
    }
  });
}

TEST_P(AlgorithmsTest, AllRanksOfAnAllReduceHoldTheSameBits) {
  if (GetParam()->collective != Collective::kAllReduce) return SUCCEED() << "one rank per result";
  ForEachWorld([&](Case c) {
    c.elems = 53;
    const std::vector<std::byte> all = FloatResult(c);
    const size_t bytes = all.size() / c.n;
    for (int rank = 1; rank < c.n; ++rank) {
      ASSERT_TRUE(std::equal(all.begin(), all.begin() + bytes, all.begin() + rank * bytes))
          << c.ToString() << ": ranks 0 and " << rank << " differ";
    }
  });
}

std::vector<const AlgorithmRow*> Rows() {
  std::vector<const AlgorithmRow*> rows;
  for (const AlgorithmRow& row : Algorithms()) rows.push_back(&row);
  return rows;
}

std::string TestName(const testing::TestParamInfo<const AlgorithmRow*>& info) {
  std::string name = info.param->name + "_" + std::string(Name(info.param->collective));
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

INSTANTIATE_TEST_SUITE_P(Registry, AlgorithmsTest, testing::ValuesIn(Rows()), TestName);

}  // namespace
}  // namespace gradwire
