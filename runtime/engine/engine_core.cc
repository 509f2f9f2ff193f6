#include "runtime/engine/engine_core.h"

#include <algorithm>
#include <utility>

#include "base/failpoint.h"
#include "base/keep_forever.h"
#include "base/log.h"
#include "base/wrapping.h"
#include "runtime/recorder/recorded_text.h"

namespace gradwire {
namespace {

// Finished operations kept for the case that a peer disagrees about one later.
constexpr size_t kKeptOperations = 64;
constexpr size_t kMaxNameBytes = 500;  // as much as a reason carries

bool IsSend(const Transfer& transfer) { return transfer.kind == Transfer::Kind::kSend; }

// Of the next operation, of which `submitted` becomes the number behind it.
uint32_t TakeOpSeq(uint32_t* submitted) {
  if (*submitted == kNoOpSeq) ++*submitted;
  return (*submitted)++;
}

}  // namespace

EngineCore::EngineCore(const Options& options, Transport* transport, ControlChannel* control,
                       const Clock* clock, EngineListener* listener)
    : options_(options),
      transport_(transport),
      control_(control),
      clock_(clock),
      listener_(listener),
      window_(options.window),
      messages_(transport, clock,
                {.rank = options.rank,
                 .world_size = options.world_size,
                 .job = options.job,
                 .epoch = options.epoch,
                 .max_message_bytes = options.slice_bytes,
                 .timeout_ns = options.op_timeout_ns,
                 .listener = this}),
      driver_(transport, {.rank = options.rank,
                          .world_size = options.world_size,
                          .job = options.job,
                          .epoch = options.epoch,
                          .window = window_.most(),
                          .max_message_bytes = options.slice_bytes,
                          .point_to_point = &messages_}),
      this_turn_{.submitted = options.first_op_seq},
      ballot_(options.world_size),
      left_(options.world_size),
      last_move_ns_(clock->NowNs()) {
  driver_.SetCompletedBelow(this_turn_.submitted);
  TellProgress();
}

EngineCore::~EngineCore() {
  // The transport may still read sources that did not complete.
  if (!driver_.Quiet()) {
    GW_LOG(kWarn, kColl, "{} slices are never freed: the transport has not let go of their memory",
           graveyard_.size() + active_.size());
    for (auto& slice : graveyard_) KeepForever(std::move(slice));
    for (auto& active : active_) KeepForever(std::move(active.slice));
  }
}

void EngineCore::Submit(std::shared_ptr<Operation> operation) {
  operation->submit_ns = clock_->NowNs();
  if (!fatal_.ok()) return Refuse(*operation, fatal_);
  const int ahead = TurnsAhead(operation->turn, turn_);
  if (ahead < 0) return RefuseLate(operation.get());
  operation->op_seq = TakeOpSeq(ahead == 0 ? &this_turn_.submitted : &submitted_later_);
  operation->signature = operation->Signature();
  if (queue_.empty()) last_move_ns_ = operation->submit_ns;
  Note({.kind = RecordKind::kSubmit,
        .time_ns = operation->submit_ns,
        .turn = operation->turn,
        .op_seq = operation->op_seq,
        .bytes = operation->bytes,
        .dtype = operation->dtype,
        .signature = operation->signature,
        .text = operation->name,
        .tensor = operation->tensor});
  queue_.push_back({std::move(operation)});
  has_progress_ = true;
  HearMine();
}

void EngineCore::Post(std::shared_ptr<Transfer> transfer) {
  if (!fatal_.ok()) return PointToPoint::End(transfer.get(), fatal_);
  Note({.kind = IsSend(*transfer) ? RecordKind::kSend : RecordKind::kRecv,
        .bytes = transfer->bytes(),
        .dtype = transfer->dtype,
        .value = transfer->peer});
  messages_.Post(std::move(transfer));
}

void EngineCore::OnTransferEnd(const Transfer& transfer) {
  NoteStatus({.kind = IsSend(transfer) ? RecordKind::kSendDone : RecordKind::kRecvDone,
              .bytes = transfer.bytes(),
              .dtype = transfer.dtype,
              .value = transfer.peer},
             transfer.status);
}

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
  const uint32_t submitted = end.turn == turn_ ? this_turn_.submitted : submitted_later_;
  Note({.kind = RecordKind::kStepEnd,
        .turn = end.turn,
        .step = end.step,
        .value = static_cast<int32_t>(submitted)});
  ends_.push_back(end);
  last_move_ns_ = clock_->NowNs();
  if (end.turn == turn_) driver_.SetSubmitted(this_turn_.submitted);
  // Rank 0 compares the number of operations at once, not only when all are complete.
  if (options_.rank != 0 && fatal_.ok()) {
    (void)control_->SendTo(
        0, {.turn = end.turn,
            .fields = HeartbeatFields{.slices_done = slices_done_, .submitted = submitted}});
  }
}

void EngineCore::NoteStepBegin(uint64_t step, int64_t time_ns) {
  Note({.kind = RecordKind::kStepBegin, .time_ns = time_ns, .turn = turn_, .step = step});
}

bool EngineCore::Poll() {
  const bool heard = control_->Poll(this) > 0;
  if (!fatal_.ok()) return DrainFatal() || heard;
  // Before the transport is looked at: a peer that was here first has sent already, and for what is
  // admitted its fragments need no copy.
  bool moved = !this_turn_.revoked && AdmitSlices();
  const bool received = driver_.Poll();
  moved |= driver_.TakeRunsMoved();
  const bool messages_moved = messages_.Poll() || received;
  moved |= AdvanceFinishedRuns();
  moved |= HandleDriverErrors();
  if (!this_turn_.revoked) moved |= ComputeLocalOnce();
  // Again: whoever polls may leave with what is complete, and the slices that it has made room for
  // would wait for the next one.
  if (!this_turn_.revoked) moved |= AdmitSlices();
  NoteWire();
  moved |= MaybeVote();
  moved |= MaybeEndTurn();
  // Heartbeats and messages are no progress: they go on while an operation hangs.
  moved_ |= moved;
  // Not only at rest: operations are nothing to a call that nobody meets.
  CheckMessages();
  if (!moved) Rest();
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

// ---- slices ----

namespace {

// Whose times tell of the way. The second slice may be alone, when all ranks have met for the
// first, and the last may be shorter.
bool IsLongAllReduce(const Operation& operation) {
  const AlgorithmRow* algorithm = operation.course.algorithm;
  return operation.slices() > 2 && algorithm != nullptr &&
         algorithm->collective == Collective::kAllReduce;
}

}  // namespace

bool EngineCore::AdmitSlices() {
  bool moved = false;
  while (Progress* const next = NextToAdmit()) {
    if (!(next->prepared || PrepareNext(next)) || !AdmitOne(next)) break;
    moved = true;
    if (this_turn_.revoked) break;
  }
  return moved || this_turn_.revoked;  // it was not when this began
}

// The first of this turn that has slices to be admitted; null: none has.
EngineCore::Progress* EngineCore::NextToAdmit() {
  for (Progress& progress : queue_) {
    if (progress.operation->turn != turn_) return nullptr;
    if (!progress.prepared || progress.admitted < progress.operation->slices()) return &progress;
  }
  return nullptr;
}

// False: there is no room, or the turn is revoked.
bool EngineCore::PrepareNext(Progress* next) {
  if (!window_.HasRoom(window_.LoadOf(0), false)) return false;
  Operation& operation = *next->operation;
  this_turn_.unfinished += operation.in_step ? 0 : 1;
  draws_ = std::max(draws_, operation.draws_end);
  if (Status s = operation.Prepare(); !s.ok()) {
    RevokeTurn(std::move(s), operation.op_seq, true);
    return false;
  }
  next->prepared = true;
  has_progress_ = true;
  const SliceTraits traits = operation.Traits();
  next->load = window_.LoadOf(traits.fill);
  if (traits.kind != 0 && IsLongAllReduce(operation)) {
    next->kind = traits.kind;
    next->alone = window_.WantsAlone(traits.kind);
  }
  return true;
}

// False: there is no room, or the turn is revoked. Else `next` may be gone: a slice may be done at
// once, and be the last of its operation.
bool EngineCore::AdmitOne(Progress* next) {
  const bool alone = next->alone && next->admitted == 1;
  if (!window_.HasRoom(next->load, alone)) return false;
  Operation& operation = *next->operation;
  const int64_t slices = operation.slices(), index = next->admitted++;
  const RunKey key = {.op_seq = operation.op_seq, .slice = static_cast<uint32_t>(index)};
  StatusOr<std::unique_ptr<SliceOp>> slice = operation.MakeSlice(index);
  if (!slice.ok()) {
    RevokeTurn(slice.status(), key.op_seq, true);
    return false;
  }
  // An operation of one slice is admitted when it is submitted and done when it is complete.
  if (slices > 1)
    Note({.kind = RecordKind::kAdmit, .turn = turn_, .op_seq = key.op_seq, .slice = key.slice});
  driver_.Admit(key.op_seq, key.slice, slices);
  active_.push_back({.operation = &operation,
                     .slice = std::move(*slice),
                     .key = key,
                     .load = next->load,
                     .kind = index + 1 < slices ? next->kind : 0,
                     .admitted_ns = clock_->NowNs()});
  window_.Begin(next->load, alone);
  Advance(active_.size() - 1);
  PassFailpoint(Failpoint::kSlice);
  return true;
}

void EngineCore::Advance(size_t index) {
  ActiveSlice& active = active_[index];
  StatusOr<SliceAction> action = active.slice->Next();
  if (!action.ok()) return FailSlice(index, action.status());
  active.action = *action;
  switch (action->kind) {
    case SliceAction::Kind::kCompute: return;
    case SliceAction::Kind::kRun:
      driver_.Start({.key = active.key,
                     .schedule = action->schedule,
                     .work = active.slice.get(),
                     .signature = active.operation->signature});
      ++active.key.run;  // may wrap: the runs of a slice follow each other
      return;
    case SliceAction::Kind::kDone: return FinishSlice(index);
  }
}

bool EngineCore::AdvanceFinishedRuns() {
  bool moved = false;
  while (std::optional<FinishedRun> run = driver_.TakeFinished()) {
    moved = true;
    auto it = std::find_if(active_.begin(), active_.end(), [&](const ActiveSlice& a) {
      return a.key.op_seq == run->key.op_seq && a.key.slice == run->key.slice;
    });
    if (it == active_.end()) continue;  // cancelled
    const size_t index = it - active_.begin();
    if (run->status.ok()) {
      Advance(index);
    } else {
      FailSlice(index, run->status);
    }
  }
  return moved;
}

bool EngineCore::ComputeLocalOnce() {
  for (size_t i = 0; i < active_.size(); ++i) {
    if (active_[i].action.kind != SliceAction::Kind::kCompute) continue;
    StatusOr<bool> finished = active_[i].slice->ComputeLocal();
    if (!finished.ok()) {
      FailSlice(i, finished.status());
    } else if (*finished) {
      Advance(i);
    }
    return true;
  }
  return false;
}

void EngineCore::FailSlice(size_t index, Status status) {
  RevokeTurn(std::move(status), active_[index].key.op_seq, true);
}

void EngineCore::FinishSlice(size_t index) {
  Operation* const operation = active_[index].operation;
  const RunKey active_key = active_[index].key;
  operation->stats.Add(active_[index].slice->stats());
  const ActiveSlice& done = active_[index];
  if (done.kind != 0) window_.NoteTime(done.kind, clock_->NowNs() - done.admitted_ns);
  window_.End(done.load);
  active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(index));
  driver_.Retire(active_key.op_seq, active_key.slice);
  ++slices_done_;
  if (operation->slices() > 1) {
    Note({.kind = RecordKind::kSliceDone,
          .turn = turn_,
          .op_seq = active_key.op_seq,
          .slice = active_key.slice});
  }
  auto it = std::find_if(queue_.begin(), queue_.end(),
                         [&](const Progress& p) { return p.operation.get() == operation; });
  ++it->finished;
  if (it->complete()) FinishOperation(&*it);
}

void EngineCore::FinishOperation(Progress* progress) {
  Operation& operation = *progress->operation;
  this_turn_.unfinished -= operation.in_step ? 0 : 1;
  CompleteOperation(operation, Status());
  const bool asked = operation.in_step && options_.nonfinite != NonFinitePolicy::kPropagate;
  if (asked) NoteNonFinite(operation);
  this_turn_.replicated_digest += operation.replicated_digest;
  SkipDone();
}

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

// Operations complete out of order inside the window; frames for those below the first incomplete
// one are mismatches.
void EngineCore::SkipDone() {
  while (!queue_.empty() && queue_.front().operation->turn == turn_ && queue_.front().complete()) {
    this_turn_.done.push_back(std::move(queue_.front().operation));
    queue_.pop_front();
  }
  while (this_turn_.done.size() > kKeptOperations) this_turn_.done.pop_front();
  const bool waiting = !queue_.empty() && queue_.front().operation->turn == turn_;
  driver_.SetCompletedBelow(waiting ? queue_.front().operation->op_seq : this_turn_.submitted);
  has_progress_ = true;
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

void EngineCore::CompleteOperation(Operation& operation, Status status) {
  operation.complete_ns = clock_->NowNs();
  NoteStatus({.kind = RecordKind::kComplete,
              .time_ns = operation.complete_ns,
              .turn = operation.turn,
              .op_seq = operation.op_seq},
             status);
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
void EngineCore::Rest() {
  if (std::exchange(has_progress_, false)) TellProgress();
  CheckTimeouts();
}

HeartbeatFields EngineCore::MyProgress() const {
  HeartbeatFields mine = {.slices_done = slices_done_,
                          .submitted = this_turn_.submitted,
                          .op_seq = this_turn_.submitted,
                          .looks = looks_};
  if (queue_.empty() || queue_.front().operation->turn != turn_) return mine;
  const Progress& oldest = queue_.front();
  mine.op_seq = oldest.operation->op_seq;
  if (oldest.prepared) mine.signature = oldest.operation->signature;
  return mine;
}

void EngineCore::TellProgress() {
  control_->SetProgress({.turn = turn_, .counters = MyProgress()});
}

void EngineCore::Note(RecorderEvent event) {
  if (options_.recorder == nullptr) return;
  if (event.time_ns == 0) event.time_ns = clock_->NowNs();
  options_.recorder->Record(event);
}

void EngineCore::NoteStatus(RecorderEvent event, const Status& status) {
  if (status.ok()) return Note(event);
  const std::string text = RecordedText(status.detail());
  event.peer = status.detail().peer;
  event.status = status.code();
  event.text = text;
  Note(event);
}

}  // namespace gradwire
