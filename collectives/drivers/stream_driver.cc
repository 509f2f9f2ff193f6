#include "collectives/drivers/stream_driver.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/workspace.h"

namespace gradwire {
namespace {

// One send or receive; `slot` is where something to be added later goes.
Status IssueMessage(const Step& step, SliceWork* work, Bytes slot, StreamTransport* transport) {
  switch (step.kind) {
    case StepKind::kSend: return transport->Send(step.peer, work->Memory(step.src));
    case StepKind::kRecv: return transport->Recv(step.peer, work->Memory(step.dst));
    case StepKind::kRecvReduce: return transport->Recv(step.peer, slot);
    case StepKind::kReduce:
    case StepKind::kCopy:
    case StepKind::kEncode:
    case StepKind::kDecode:
    case StepKind::kDecodeAdd: break;
  }
  return Status(gwInternalError, "a local step among the messages of a round");
}

int64_t MessageBytes(const Step& step, const SliceWork& work) {
  return work.MessageBytes(MessageRegion(step));
}

}  // namespace

StreamPlan::StreamPlan(const Schedule* s) : schedule(s) {
  int32_t last = -1;
  for (const Step& step : schedule->steps) last = std::max(last, step.round);
  rounds.resize(last + 1);
  for (size_t i = 0; i < schedule->steps.size(); ++i) {
    const Step& step = schedule->steps[i];
    Round& round = rounds[step.round];
    (IsMessage(step.kind) ? round.messages : round.local).push_back(static_cast<int32_t>(i));
  }
}

int64_t StreamScratchBytes(const StreamPlan& plan, const SliceWork& work) {
  int64_t most = 0;
  for (const StreamPlan::Round& round : plan.rounds) {
    int64_t bytes = 0;
    for (int32_t i : round.messages) {
      const Step& step = plan.schedule->steps[i];
      if (step.kind == StepKind::kRecvReduce) bytes += AlignUp(work.MessageBytes(step.dst));
    }
    most = std::max(most, bytes);
  }
  return most;
}

Status StreamRun::IssueLocal(const StreamPlan::Round& round) {
  for (int32_t i : round.local) {
    int64_t cursor = 0;
    bool finished = false;
    while (!finished) {
      StatusOr<bool> advanced = work_->Compute(plan_->schedule->steps[i], &cursor);
      if (!advanced.ok()) return advanced.status();
      finished = *advanced;
    }
  }
  return Status::Ok();
}

Status StreamRun::IssueMessages(const StreamPlan::Round& round, StreamTransport* transport) {
  bool open = false;
  int64_t used = 0;
  Status first_error;
  for (int32_t i : round.messages) {
    const Step& step = plan_->schedule->steps[i];
    const int64_t bytes = MessageBytes(step, *work_);
    if (bytes == 0) continue;
    if (!open) GW_RETURN_IF_ERROR(transport->GroupStart());
    open = true;
    Bytes slot;
    if (step.kind == StepKind::kRecvReduce) {
      slot = scratch_.Sub(used, bytes);
      used += AlignUp(bytes);
    }
    first_error = IssueMessage(step, work_, slot, transport);
    if (!first_error.ok()) break;
  }
  if (!open) return Status::Ok();
  // Also after an error: the group belongs to the thread, not to this run.
  Status end = transport->GroupEnd();
  return first_error.ok() ? std::move(end) : std::move(first_error);
}

void StreamRun::AddReceived(const StreamPlan::Round& round) {
  int64_t used = 0;
  for (int32_t i : round.messages) {
    const Step& step = plan_->schedule->steps[i];
    if (step.kind != StepKind::kRecvReduce) continue;
    const int64_t bytes = work_->MessageBytes(step.dst);
    if (bytes > 0) work_->Combine(step, /*offset=*/0, scratch_.Sub(used, bytes));
    used += AlignUp(bytes);
  }
}

Status StreamRun::IssueRound(StreamTransport* transport) {
  assert(!done());
  const StreamPlan::Round& round = plan_->rounds[next_];
  GW_RETURN_IF_ERROR(IssueLocal(round));
  GW_RETURN_IF_ERROR(IssueMessages(round, transport));
  AddReceived(round);
  ++next_;
  return Status::Ok();
}

Status IssueRounds(std::span<StreamRun> slices, StreamTransport* transport) {
  size_t done = 0;
  for (size_t wave = 0; done < slices.size(); ++wave) {
    for (size_t slice = done; slice <= std::min(wave, slices.size() - 1); ++slice) {
      if (!slices[slice].done()) GW_RETURN_IF_ERROR(slices[slice].IssueRound(transport));
    }
    while (done < slices.size() && slices[done].done()) ++done;
  }
  return Status::Ok();
}

}  // namespace gradwire
