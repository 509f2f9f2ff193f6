#include "runtime/engine/engine_core.h"

#include <algorithm>
#include <utility>

#include "base/wrapping.h"

namespace gradwire {
namespace {

constexpr size_t kMaxNameBytes = 500;  // as much as a reason carries
// More than an engine sleeps between two polls, on a machine that is busy too.
constexpr int64_t kLeastPauseNs = 200 * kNsPerMs;

// So long nobody polls only where the process stands still: half of what is too long for others.
int64_t PauseNs(const EngineCore::Options& options) {
  const int64_t timeout_ns = options.op_timeout_ns > 0 ? options.op_timeout_ns : INT64_MAX;
  return std::max(std::min(options.silence_ns, timeout_ns) / 2, kLeastPauseNs);
}

}  // namespace

EngineCore::EngineCore(const Options& options, Transport* transport, ControlChannel* control,
                       const Clock* clock, EngineListener* listener)
    : options_(options),
      transport_(transport),
      control_(control),
      clock_(clock),
      listener_(listener),
      notes_(options.recorder, clock),
      pipeline_({.window = options.window, .first_op_seq = options.first_op_seq}, &driver_, clock,
                &notes_, this),
      messages_(transport, clock,
                {.rank = options.rank,
                 .world_size = options.world_size,
                 .job = options.job,
                 .epoch = options.epoch,
                 .max_message_bytes = options.slice_bytes,
                 .timeout_ns = options.op_timeout_ns,
                 .pause_ns = PauseNs(options),
                 .listener = this}),
      driver_(transport, {.rank = options.rank,
                          .world_size = options.world_size,
                          .job = options.job,
                          .epoch = options.epoch,
                          .window = pipeline_.most_slices(),
                          .max_message_bytes = options.slice_bytes,
                          .point_to_point = &messages_}),
      ballot_(options.world_size),
      hub_(PauseNs(options)),
      departures_({.world_size = options.world_size,
                   .within_host = transport->caps().within_host,
                   .silence_ns = options.silence_ns}),
      still_(clock->NowNs(), PauseNs(options)) {
  driver_.SetCompletedBelow(pipeline_.submitted());
  TellProgress();
}

EngineCore::~EngineCore() {
  // The transport may still read sources that did not complete.
  if (!driver_.Quiet()) pipeline_.Leak();
}

void EngineCore::Submit(std::shared_ptr<Operation> operation) {
  operation->submit_ns = clock_->NowNs();
  if (!fatal_.ok()) return Refuse(*operation, fatal_);
  if (TurnsAhead(operation->turn, turn_) < 0) return RefuseLate(operation.get());
  if (pipeline_.empty()) still_.Restart(operation->submit_ns);
  operation->signature = operation->Signature();
  pipeline_.Submit(operation);
  notes_.Submitted(*operation);
  has_progress_ = true;
  HearMine();
}

void EngineCore::Post(std::shared_ptr<Transfer> transfer) {
  if (!fatal_.ok()) return PointToPoint::End(transfer.get(), fatal_);
  notes_.MessageCalled(*transfer);
  messages_.Post(std::move(transfer));
}

void EngineCore::OnTransferEnd(const Transfer& transfer) { notes_.MessageEnded(transfer); }

DriverCounters EngineCore::counters() const {
  DriverCounters counters = driver_.counters();
  counters.sent_bytes += messages_.counters().sent_bytes;
  counters.sent_frames += messages_.counters().sent_frames;
  return counters;
}

void EngineCore::EndTurn(const TurnEnd& end) {
  // Aborted while the caller did not know yet.
  if (TurnsAhead(end.turn, turn_) < 0) {
    if (end.no_wait) GiveUp(end.step);
    return;
  }
  const uint32_t submitted =
      end.turn == turn_ ? pipeline_.submitted() : pipeline_.submitted_later();
  notes_.StepEnded(end.turn, end.step, submitted);
  ends_.push_back(end);
  still_.Restart(clock_->NowNs());
  if (end.turn == turn_) driver_.SetSubmitted(submitted);
  // Rank 0 compares the number of operations at once, not only when all are complete.
  if (options_.rank != 0 && fatal_.ok()) {
    (void)control_->SendTo(0, {.turn = end.turn,
                               .fields = HeartbeatFields{.slices_done = pipeline_.slices_done(),
                                                         .submitted = submitted}});
  }
}

void EngineCore::NoteStepBegin(uint64_t step, int64_t time_ns) {
  notes_.StepBegan(turn_, step, time_ns);
}

void EngineCore::TellThrough() {
  departures_.HearThrough(options_.rank);
  has_progress_ = true;
  if (pipeline_.submitted() == 0 || !fatal_.ok()) return;
  // Who waits for the last one is not to wait for its heartbeat.
  (void)control_->Broadcast({.turn = turn_, .fields = MyProgress()});
}

bool EngineCore::settled() const { return pipeline_.submitted() == 0 || departures_.all_through(); }

bool EngineCore::Poll() {
  const bool heard = control_->Poll(this) > 0;
  if (!fatal_.ok()) return DrainFatal() || heard;
  // Before the transport is looked at: a peer that was here first has sent already, and for what is
  // admitted its fragments need no copy.
  bool moved = pipeline_.Admit();
  const bool received = driver_.Poll();
  moved |= driver_.TakeRunsMoved();
  const bool messages_moved = messages_.Poll() || received;
  moved |= pipeline_.AdvanceFinishedRuns();
  moved |= pipeline_.Compute();
  // Again: whoever polls may leave with what is complete, and the slices that it has made room for
  // would wait for the next one.
  moved |= pipeline_.Admit();
  // Behind all that begins runs, whose fragments may be here and wrong: the next turn must not find
  // an error of this one.
  moved |= HandleDriverErrors();
  NoteWire();
  moved |= MaybeVote();
  moved |= MaybeEndTurn();
  // Heartbeats and messages are no progress: they go on while an operation hangs.
  if (moved) still_.NoteMove();
  // Not only at rest: operations are nothing to a call that nobody meets.
  CheckMessages();
  if (!moved) LookAround();
  return moved || messages_moved || heard;
}

void EngineCore::NoteWire() {
  const bool is_used = !driver_.idle();
  if (options_.timeline == nullptr || is_used == wire_since_ns_.has_value()) return;
  const int64_t now_ns = clock_->NowNs();
  if (wire_since_ns_) {
    options_.timeline->Add(
        {.kind = SpanKind::kWire, .begin_ns = *wire_since_ns_, .end_ns = now_ns});
    wire_since_ns_.reset();
  } else {
    wire_since_ns_ = now_ns;
  }
}

// ---- operations ----

void EngineCore::OnBegin(const Operation& operation) {
  this_turn_.unfinished += operation.in_step ? 0 : 1;
  draws_ = std::max(draws_, operation.draws_end);
  has_progress_ = true;
}

void EngineCore::OnSlicesDone(Operation& operation) {
  this_turn_.unfinished -= operation.in_step ? 0 : 1;
  CompleteOperation(operation, Status());
  const bool asked = operation.in_step && options_.nonfinite != NonFinitePolicy::kPropagate;
  if (asked) NoteNonFinite(operation);
  this_turn_.replicated_digest += operation.replicated_digest;
  has_progress_ = true;
}

void EngineCore::OnFailed(uint32_t op_seq, Status why) { RevokeTurn(std::move(why), op_seq, true); }

void EngineCore::NoteNonFinite(const Operation& operation) {
  const bool in_result = operation.stats.nonfinite > 0;
  if (!in_result && !operation.nonfinite_gradient) return;
  // The first tensor, but what this rank has brought tells more than where a sum is not finite.
  const bool tells_more = operation.nonfinite_gradient && (this_turn_.nonfinite & kInGradient) == 0;
  if (this_turn_.nonfinite == 0 || tells_more) {
    const std::string& closest = operation.nonfinite_tensor;
    this_turn_.nonfinite_tensor =
        (closest.empty() ? operation.tensor : closest).substr(0, kMaxNameBytes);
  }
  if (in_result) this_turn_.nonfinite |= kInResult;
  if (operation.nonfinite_gradient) this_turn_.nonfinite |= kInGradient;
}

// Submitted while the result was on its way: the caller hears what those before it heard.
void EngineCore::RefuseLate(Operation* operation) {
  const Status late(gwAborted, "the step was aborted before this operation was submitted",
                    "End the step and run it again");
  Refuse(*operation, last_reason_.ok() ? late : last_reason_);
}

// It was never submitted, so the record has nothing of it.
void EngineCore::Refuse(Operation& operation, Status status) {
  operation.complete_ns = operation.submit_ns;
  EndOperation(operation, std::move(status).WithOp(operation.name));
}

// No effect on one that is complete.
void EngineCore::CompleteOperation(Operation& operation, Status status) {
  if (operation.done.load(std::memory_order_relaxed)) return;
  operation.complete_ns = clock_->NowNs();
  notes_.Completed(operation, status);
  EndOperation(operation, std::move(status).WithOp(operation.name, operation.op_seq));
}

void EngineCore::EndOperation(Operation& operation, Status status) {
  if (status.ok()) {
    operation.OnComplete();
  } else {
    operation.OnFailed();
  }
  if (!status.ok()) {
    operation.status = std::move(status).WithTensor(operation.tensor).WithRank(options_.rank);
  }
  listener_->OnOperationDone(operation);
  operation.done.store(true, std::memory_order_release);
}

// No operation moves: time for what need not be at once.
void EngineCore::LookAround() {
  if (std::exchange(has_progress_, false)) TellProgress();
  CheckTimeouts();
}

HeartbeatFields EngineCore::MyProgress() const {
  HeartbeatFields mine = {
      .slices_done = pipeline_.slices_done(),
      .submitted = pipeline_.submitted(),
      .op_seq = pipeline_.submitted(),
      .looks = looks_,
      .is_through = static_cast<uint8_t>(departures_.is_through(options_.rank))};
  const Operation* oldest = pipeline_.oldest();
  if (oldest == nullptr) return mine;
  mine.op_seq = oldest->op_seq;
  if (pipeline_.HasBegun(*oldest)) mine.signature = oldest->signature;
  return mine;
}

void EngineCore::TellProgress() {
  control_->SetProgress({.turn = turn_, .counters = MyProgress()});
}

}  // namespace gradwire
