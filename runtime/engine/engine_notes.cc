#include "runtime/engine/engine_notes.h"

#include <string>

#include "runtime/recorder/format.h"
#include "runtime/recorder/recorded_text.h"

namespace gradwire {
namespace {

bool IsSend(const Transfer& transfer) { return transfer.kind == Transfer::Kind::kSend; }

RecorderEvent EventOf(const Transfer& transfer, RecordKind kind) {
  return {.kind = kind, .bytes = transfer.bytes(), .dtype = transfer.dtype, .value = transfer.peer};
}

RecorderEvent EventOf(const RunKey& slice, uint16_t turn, RecordKind kind) {
  return {.kind = kind, .turn = turn, .op_seq = slice.op_seq, .slice = slice.slice};
}

}  // namespace

void EngineNotes::Add(RecorderEvent event) const {
  if (recorder_ == nullptr) return;
  if (event.time_ns == 0) event.time_ns = clock_->NowNs();
  recorder_->Record(event);
}

void EngineNotes::Add(RecorderEvent event, const Status& status) const {
  if (status.ok()) return Add(event);
  const std::string text = RecordedText(status.detail());
  event.peer = status.detail().peer;
  event.status = status.code();
  event.text = text;
  Add(event);
}

// ---- what the caller does ----

void EngineNotes::StepBegan(uint16_t turn, uint64_t step, int64_t time_ns) const {
  Add({.kind = RecordKind::kStepBegin, .time_ns = time_ns, .turn = turn, .step = step});
}

void EngineNotes::StepEnded(uint16_t turn, uint64_t step, uint32_t submitted) const {
  Add({.kind = RecordKind::kStepEnd,
       .turn = turn,
       .step = step,
       .value = static_cast<int32_t>(submitted)});
}

void EngineNotes::Submitted(const Operation& operation) const {
  Add({.kind = RecordKind::kSubmit,
       .time_ns = operation.submit_ns,
       .turn = operation.turn,
       .op_seq = operation.op_seq,
       .bytes = operation.bytes,
       .dtype = operation.dtype,
       .signature = operation.signature,
       .text = operation.name,
       .tensor = operation.tensor});
}

void EngineNotes::MessageCalled(const Transfer& transfer) const {
  Add(EventOf(transfer, IsSend(transfer) ? RecordKind::kSend : RecordKind::kRecv));
}

// ---- what becomes of it ----

void EngineNotes::Admitted(uint16_t turn, const RunKey& slice) const {
  Add(EventOf(slice, turn, RecordKind::kAdmit));
}

void EngineNotes::SliceDone(uint16_t turn, const RunKey& slice) const {
  Add(EventOf(slice, turn, RecordKind::kSliceDone));
}

void EngineNotes::Completed(const Operation& operation, const Status& status) const {
  Add({.kind = RecordKind::kComplete,
       .time_ns = operation.complete_ns,
       .turn = operation.turn,
       .op_seq = operation.op_seq},
      status);
}

void EngineNotes::MessageEnded(const Transfer& transfer) const {
  Add(EventOf(transfer, IsSend(transfer) ? RecordKind::kSendDone : RecordKind::kRecvDone),
      transfer.status);
}

void EngineNotes::Waiting(uint16_t turn, const WaitingRun& run) const {
  const PeerProgress& p = run.progress;
  RecorderEvent event = EventOf(run.key, turn, RecordKind::kWaiting);
  event.peer = p.peer;
  event.progress = {SaturatedCount(p.sends_done), SaturatedCount(p.sends),
                    SaturatedCount(p.recvs_done), SaturatedCount(p.recvs)};
  Add(event);
}

// ---- the vote ----

void EngineNotes::Voted(uint16_t turn, uint32_t op_seq, uint32_t submitted,
                        const Status& why) const {
  Add({.kind = RecordKind::kVote,
       .turn = turn,
       .op_seq = op_seq,
       .value = static_cast<int32_t>(submitted)},
      why);
}

void EngineNotes::VoteHeard(uint16_t turn, int from, const VoteFields& vote) const {
  Add({.kind = RecordKind::kVoteHeard,
       .turn = turn,
       .peer = from,
       .status = vote.ok != 0 ? gwSuccess : gwAborted,
       .value = static_cast<int32_t>(vote.submitted)});
}

void EngineNotes::TurnEnded(const TurnResult& result) const {
  Add({.kind = RecordKind::kResult,
       .turn = result.turn,
       .step = result.step,
       .value = static_cast<int32_t>(result.outcome)},
      result.reason);
}

void EngineNotes::PlanOrdered(uint16_t turn, uint32_t plan_epoch) const {
  Add({.kind = RecordKind::kPlan, .turn = turn, .value = static_cast<int32_t>(plan_epoch)});
}

// ---- failures ----

void EngineNotes::Revoked(uint16_t turn, uint32_t op_seq, const Status& why) const {
  Add({.kind = RecordKind::kRevoke, .turn = turn, .op_seq = op_seq, .value = why.detail().rank},
      why);
}

void EngineNotes::PeerLost(uint16_t turn, int peer, const Status& cause) const {
  Add({.kind = RecordKind::kPeerLost, .turn = turn, .peer = peer, .text = cause.detail().message});
}

void EngineNotes::EpochEnded(uint16_t turn, const Status& status) const {
  Add({.kind = RecordKind::kError, .turn = turn, .op_seq = kNoOpSeq}, status);
}

}  // namespace gradwire
