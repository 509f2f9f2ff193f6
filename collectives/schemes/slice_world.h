// Runs the slices of all ranks in one thread, for the schemes' tests.
#ifndef GRADWIRE_COLLECTIVES_SCHEMES_SLICE_WORLD_H_
#define GRADWIRE_COLLECTIVES_SCHEMES_SLICE_WORLD_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "collectives/executor.h"
#include "collectives/schedule.h"
#include "collectives/schemes/slice_op.h"
#include "collectives/verify/interpreter.h"

namespace gradwire {

// The schedules of all ranks.
inline std::vector<std::unique_ptr<PreparedSchedule>> PrepareAll(const AlgorithmRow& row, int n,
                                                                 int root = 0) {
  std::vector<std::unique_ptr<PreparedSchedule>> all;
  for (int rank = 0; rank < n; ++rank) {
    all.push_back(std::make_unique<PreparedSchedule>(row.make(rank, n, root)));
  }
  return all;
}

// Takes one slice of every rank to its end; messages and steps in an order drawn from `seed`.
inline Status RunSlices(const std::vector<std::unique_ptr<SliceOp>>& slices, uint64_t seed) {
  for (bool all_done = false; !all_done; ++seed) {
    all_done = true;
    std::vector<InterpretedRank> runs;
    for (const std::unique_ptr<SliceOp>& slice : slices) {
      const StatusOr<SliceAction> action = slice->Next();
      if (!action.ok()) return action.status();
      all_done &= action->kind == SliceAction::Kind::kDone;
      if (action->kind == SliceAction::Kind::kRun) runs.push_back({action->schedule, slice.get()});
      for (bool more = action->kind == SliceAction::Kind::kCompute; more;) {
        const StatusOr<bool> finished = slice->ComputeLocal();
        if (!finished.ok()) return finished.status();
        more = !*finished;
      }
    }
    if (!runs.empty()) GW_RETURN_IF_ERROR(Interpret(runs, seed));
  }
  return Status();
}

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_SCHEMES_SLICE_WORLD_H_
