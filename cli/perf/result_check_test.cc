#include "cli/perf/result_check.h"

#include <gtest/gtest.h>

#include <algorithm>
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

TEST(CountWrong, SeesShiftedResults) {
  const PerfCase c = {.collective = Collective::kBroadcast, .bytes = kElems * 4};
  std::vector<float> out = Inputs(c)[0];
  std::rotate(out.begin(), out.begin() + 256, out.end());
  EXPECT_GT(CountWrong(c, {2, kRanks}, FloatView(out.data(), kElems)), kElems / 2);
}

}  // namespace
}  // namespace gradwire
