#include "cli/perf/perf_case.h"

namespace gradwire {

bool HasRoot(Collective c) { return c == Collective::kReduce || c == Collective::kBroadcast; }

bool HasInPlace(Collective c) { return c != Collective::kAllToAll && c != Collective::kBarrier; }

int64_t CountOf(const PerfCase& c, int ranks) {
  if (c.collective == Collective::kBarrier) return 0;
  return c.bytes / SizeOf(c.dtype) / (GivesToAll(c.collective) ? ranks : 1);
}

int64_t SendElems(const PerfCase& c, int ranks) {
  const bool wide =
      c.collective == Collective::kReduceScatter || c.collective == Collective::kAllToAll;
  return CountOf(c, ranks) * (wide ? ranks : 1);
}

int64_t RecvElems(const PerfCase& c, int ranks) {
  const bool wide = c.collective == Collective::kAllGather || c.collective == Collective::kAllToAll;
  return CountOf(c, ranks) * (wide ? ranks : 1);
}

int64_t InPlaceOffset(const PerfCase& c, int rank, int ranks) {
  const bool cut =
      c.collective == Collective::kAllGather || c.collective == Collective::kReduceScatter;
  return cut ? rank * CountOf(c, ranks) : 0;
}

double BusFactor(Collective collective, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (collective) {
    case Collective::kAllReduce: return 2 * others;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll: return others;
    case Collective::kReduce:
    case Collective::kBroadcast: return 1;
    case Collective::kBarrier: return 0;
  }
  return 1;
}

}  // namespace gradwire
