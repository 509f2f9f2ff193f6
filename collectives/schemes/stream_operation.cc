#include "collectives/schemes/stream_operation.h"

#include <utility>

namespace gradwire {
namespace {

// Up to where the slice wants a run; null: it is done.
StatusOr<const PreparedSchedule*> ComputeUntilRun(SliceOp* slice) {
  for (;;) {
    const StatusOr<SliceAction> action = slice->Next();
    if (!action.ok()) return action.status();
    if (action->kind == SliceAction::Kind::kRun) return action->schedule;
    if (action->kind == SliceAction::Kind::kDone) return nullptr;
    for (bool finished = false; !finished;) {
      const StatusOr<bool> computed = slice->ComputeLocal();
      if (!computed.ok()) return computed.status();
      finished = *computed;
    }
  }
}

}  // namespace

Status StreamOperation::BeginRuns(std::vector<StreamRun>* runs) {
  for (const std::unique_ptr<SliceOp>& slice : slices_) {
    const StatusOr<const PreparedSchedule*> schedule = ComputeUntilRun(slice.get());
    if (!schedule.ok()) return schedule.status();
    if (*schedule == nullptr) continue;
    const StreamPlan& plan = plans_.try_emplace(*schedule, &(*schedule)->schedule).first->second;
    AlignedBuffer& scratch = scratch_.emplace_back();
    GW_RETURN_IF_ERROR(scratch.EnsureBytes(StreamScratchBytes(plan, *slice)));
    runs->emplace_back(&plan, slice.get(), scratch.bytes());
  }
  return Status::Ok();
}

Status StreamOperation::Issue(StreamTransport* transport) {
  for (;;) {
    std::vector<StreamRun> runs;
    GW_RETURN_IF_ERROR(BeginRuns(&runs));
    if (runs.empty()) return Status::Ok();
    GW_RETURN_IF_ERROR(IssueRounds(runs, transport));
  }
}

}  // namespace gradwire
