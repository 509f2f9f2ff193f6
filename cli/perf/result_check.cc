#include "cli/perf/result_check.h"

#include <vector>

#include "cli/perf/pattern.h"

namespace gradwire {
namespace {

Pattern PatternOf(const PerfCase& c, int rank, int ranks) {
  if (!Reduces(c.collective)) return MovedPattern(c.dtype, rank);
  return ExactPattern(c.dtype, c.op, rank, ranks);
}

Pattern ReducedPattern(const PerfCase& c, int ranks) {
  std::vector<Pattern> by_rank;
  for (int r = 0; r < ranks; ++r) by_rank.push_back(PatternOf(c, r, ranks));
  return c.op == ReduceOp::kAvg ? Averaged(Reduced(by_rank, ReduceOp::kSum), c.dtype, ranks)
                                : Reduced(by_rank, c.op);
}

// One segment of the output from each rank, each beginning at element `first` of its pattern.
int64_t CountWrongSegments(const PerfCase& c, int ranks, int64_t first, ConstView recv) {
  const int64_t count = CountOf(c, ranks);
  int64_t wrong = 0;
  for (int r = 0; r < ranks; ++r) {
    wrong += CountDifferent(PatternOf(c, r, ranks), first, recv.Sub(r * count, count));
  }
  return wrong;
}

}  // namespace

void FillExactInput(const PerfCase& c, const Place& place, View send) {
  FillWith(PatternOf(c, place.rank, place.ranks), 0, send);
}

int64_t CountWrong(const PerfCase& c, const Place& place, ConstView recv) {
  const auto& [rank, ranks] = place;
  switch (c.collective) {
    case Collective::kAllReduce: return CountDifferent(ReducedPattern(c, ranks), 0, recv);
    case Collective::kReduce:
      if (rank != c.root) return 0;
      return CountDifferent(ReducedPattern(c, ranks), 0, recv);
    case Collective::kReduceScatter:
      return CountDifferent(ReducedPattern(c, ranks), rank * CountOf(c, ranks), recv);
    case Collective::kBroadcast: return CountDifferent(PatternOf(c, c.root, ranks), 0, recv);
    case Collective::kAllGather: return CountWrongSegments(c, ranks, 0, recv);
    case Collective::kAllToAll: return CountWrongSegments(c, ranks, rank * CountOf(c, ranks), recv);
    case Collective::kBarrier: return 0;
  }
  return recv.elems;
}

}  // namespace gradwire
