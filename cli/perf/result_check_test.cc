#include "cli/perf/result_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "cli/perf/pattern.h"

namespace gradwire {
namespace {

constexpr int kRanks = 3;
constexpr int64_t kElems = 3 * 700;

// The inputs of all ranks as the measurement fills them.
std::vector<std::vector<float>> Inputs(const PerfCase& c) {
  std::vector<std::vector<float>> inputs;
  for (int r = 0; r < kRanks; ++r) {
    inputs.emplace_back(static_cast<size_t>(SendElems(c, kRanks)));
    FillExactInput(c, {r, kRanks}, FloatView(inputs.back().data(), SendElems(c, kRanks)));
  }
  return inputs;
}

// What MPI's definition of the collective gives for output element i at `rank`.
float Expected(const PerfCase& c, const std::vector<std::vector<float>>& in, int rank, int64_t i) {
  const int64_t count = CountOf(c, kRanks);
  const auto sum = [&](int64_t at) {
    float total = 0;
    for (const auto& of_rank : in) total += of_rank[static_cast<size_t>(at)];
    return total;
  };
  switch (c.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce: return sum(i);
    case Collective::kReduceScatter: return sum(rank * count + i);
    case Collective::kBroadcast: return in[static_cast<size_t>(c.root)][static_cast<size_t>(i)];
    case Collective::kAllGather:
      return in[static_cast<size_t>(i / count)][static_cast<size_t>(i % count)];
    case Collective::kAllToAll:
      return in[static_cast<size_t>(i / count)][static_cast<size_t>(rank * count + i % count)];
    case Collective::kBarrier: break;
  }
  return 0;
}

TEST(CountWrong, AcceptsWhatTheDefinitionGivesAndNothingElse) {
  for (int k = 0; k < kCollectives; ++k) {
    const PerfCase c = {.collective = static_cast<Collective>(k), .root = 1, .bytes = kElems * 4};
    const auto inputs = Inputs(c);
    for (int rank = 0; rank < kRanks; ++rank) {
      std::vector<float> out(static_cast<size_t>(RecvElems(c, kRanks)));
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] = Expected(c, inputs, rank, static_cast<int64_t>(i));
      }
      const auto wrong = [&] {
        return CountWrong(c, {rank, kRanks}, FloatView(out.data(), RecvElems(c, kRanks)));
      };
      EXPECT_EQ(wrong(), 0) << Name(c.collective) << " " << rank;
      if (out.empty()) continue;
      out.front() += 1, out.back() -= 1;
      const bool looks = c.collective != Collective::kReduce || rank == c.root;
      EXPECT_EQ(wrong(), looks ? 2 : 0) << Name(c.collective) << " " << rank;
    }
  }
}

// What FillWith makes of a number, and ReadElement of that.
double InType(DType dtype, double value) {
  std::byte bytes[8];
  FillWith({{value}}, 0, {bytes, 1, dtype});
  return ReadElement({bytes, 1, dtype}, 0);
}

// The sums of all ranks' inputs, times 1 / ranks in the type that is counted in.
std::vector<double> Averages(DType dtype, int ranks) {
  std::vector<double> values(kElems);
  for (int r = 0; r < ranks; ++r) {
    const Pattern of_rank = ExactPattern(dtype, ReduceOp::kAvg, r, ranks);
    for (int64_t i = 0; i < kElems; ++i) values[static_cast<size_t>(i)] += of_rank.at(i);
  }
  const float factor = 1.0f / static_cast<float>(ranks);
  for (double& value : values) {
    value = dtype == DType::kFloat64 ? value * (1.0 / ranks)
                                     : InType(dtype, static_cast<float>(value) * factor);
  }
  return values;
}

int64_t WrongAverages(DType dtype, int ranks, const std::vector<double>& values) {
  const PerfCase c = {.dtype = dtype, .op = ReduceOp::kAvg, .bytes = kElems * SizeOf(dtype)};
  std::vector<std::byte> bytes(static_cast<size_t>(c.bytes));
  const View out = {bytes.data(), kElems, dtype};
  FillWith({values}, 0, out);
  return CountWrong(c, {0, ranks}, out);
}

// 41 times 1 / 41 is not 1 in float32, nor 49 times 1 / 49 in float64: not all averages are whole.
constexpr int kAveragedRanks[] = {1, 2, 3, 41, 49};

TEST(CountWrong, AnAverageIsRightToTheLastBit) {
  const std::pair<DType, double> cases[] = {{DType::kFloat64, 0x1p-52},
                                            {DType::kFloat32, 0x1p-23},
                                            {DType::kFloat16, 0x1p-10},
                                            {DType::kBfloat16, 0x1p-7}};
  for (const auto& [dtype, unit] : cases) {
    for (const int ranks : kAveragedRanks) {
      std::vector<double> out = Averages(dtype, ranks);
      EXPECT_EQ(WrongAverages(dtype, ranks, out), 0) << Name(dtype) << ranks;
      // To the next number or the one behind it.
      const auto at = std::ranges::find_if(out, [](double v) { return v >= 1; });
      ASSERT_NE(at, out.end()) << Name(dtype) << ranks;
      *at = InType(dtype, *at * (1 + unit));
      EXPECT_EQ(WrongAverages(dtype, ranks, out), 1) << Name(dtype) << ranks;
    }
  }
}

TEST(CountWrong, AnAverageIsNotOffByAFifth) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    std::vector<double> out = Averages(dtype, kRanks);
    for (double& value : out) value += 0.2;
    EXPECT_EQ(WrongAverages(dtype, kRanks, out), kElems) << Name(dtype);
  }
}

TEST(CountWrong, AnAverageIsAProductAndNoQuotient) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    int64_t not_whole = 0;
    for (const int ranks : kAveragedRanks) {
      std::vector<double> out = Averages(dtype, ranks);
      int64_t rounded = 0;
      for (double& value : out) {
        rounded += value != std::round(value) ? 1 : 0;
        value = std::round(value);
      }
      EXPECT_EQ(WrongAverages(dtype, ranks, out), rounded) << Name(dtype) << ranks;
      not_whole += rounded;
    }
    EXPECT_GT(not_whole, 0) << Name(dtype);
  }
}

TEST(CountWrong, SeesShiftedResults) {
  const PerfCase c = {.collective = Collective::kBroadcast, .bytes = kElems * 4};
  std::vector<float> out = Inputs(c)[0];
  std::rotate(out.begin(), out.begin() + 256, out.end());
  EXPECT_GT(CountWrong(c, {2, kRanks}, FloatView(out.data(), kElems)), kElems / 2);
}

}  // namespace
}  // namespace gradwire
