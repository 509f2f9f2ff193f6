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
  return Reduced(by_rank, c.op);
}

// An average of numbers is a product with float(1 / ranks), which may be off in the last bit.
double Tolerance(const PerfCase& c) {
  if (!Reduces(c.collective) || c.op != ReduceOp::kAvg) return 0;
  return c.dtype == DType::kFloat32 || c.dtype == DType::kFloat64 ? 0.25 : 0;
}

// One segment of the output from each rank, each beginning at element `first` of its pattern.
int64_t CountWrongSegments(const PerfCase& c, int ranks, int64_t first, ConstView recv) {
  const int64_t count = CountOf(c, ranks);
  int64_t wrong = 0;
  for (int r = 0; r < ranks; ++r) {
    wrong += CountDifferent(PatternOf(c, r, ranks), first, recv.Sub(r * count, count), 0);
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
    case Collective::kAllReduce:
      return CountDifferent(ReducedPattern(c, ranks), 0, recv, Tolerance(c));
    case Collective::kReduce:
      if (rank != c.root) return 0;
      return CountDifferent(ReducedPattern(c, ranks), 0, recv, Tolerance(c));
    case Collective::kReduceScatter:
      return CountDifferent(ReducedPattern(c, ranks), rank * CountOf(c, ranks), recv, Tolerance(c));
    case Collective::kBroadcast: return CountDifferent(PatternOf(c, c.root, ranks), 0, recv, 0);
    case Collective::kAllGather: return CountWrongSegments(c, ranks, 0, recv);
    case Collective::kAllToAll: return CountWrongSegments(c, ranks, rank * CountOf(c, ranks), recv);
    case Collective::kBarrier: return 0;
  }
  return recv.elems;
}

}  // namespace gradwire
