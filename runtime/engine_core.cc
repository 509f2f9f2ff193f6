#include "runtime/engine_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/failpoint.h"
#include "runtime/recorder/recorded_text.h"

namespace gradwire {
namespace {

// How long the control plane has to tell who is lost before the transport's word counts.
constexpr int64_t kVerdictNs = 300'000'000;
// A rank that left properly can have nothing more under way after this.
constexpr int64_t kLeftNs = 1'000'000'000;
// So long a rest is worth a note: whoever reads the recorder of a hung job wants to know.
constexpr int64_t kNoteWaitingNs = kNsPerSecond;
// Finished operations kept for the case that a peer disagrees about one later.
constexpr size_t kKeptOperations = 64;

// `waiting` is empty where no run is under way.
Status WithWaiting(const Status& status, const std::string& waiting) {
  if (waiting.empty()) return status;
  ErrorDetail detail = status.detail();
  detail.message += fmt::format(" (in {})", waiting);
  return Status(status.code(), std::move(detail));
}

}  // namespace

EngineCore::EngineCore(const Options& options, Transport* transport, ControlChannel* control,
                       const Clock* clock, EngineListener* listener)
    : options_(options),
      transport_(transport),
      control_(control),
      clock_(clock),
      listener_(listener),
      driver_(transport, {.rank = options.rank,
                          .world_size = options.world_size,
                          .job = options.job,
                          .epoch = options.epoch,
                          .window = options.window,
                          .max_message_bytes = options.slice_bytes}),
      ballot_(options.world_size),
      left_(options.world_size),
      last_move_ns_(clock->NowNs()) {}

EngineCore::~EngineCore() {
  // The transport may still read sources that did not complete: leaked rather than handed back as
  // free.
  if (!driver_.Quiet()) {
    for (auto& slice : graveyard_) (void)slice.release();
    for (auto& active : active_) (void)active.slice.release();
  }
}

void EngineCore::Submit(std::shared_ptr<Operation> operation) {
  operation->submit_ns = clock_->NowNs();
  if (!fatal_.ok()) return Refuse(*operation, fatal_);
  const auto ahead = static_cast<int16_t>(static_cast<uint16_t>(operation->turn - turn_));
  if (ahead < 0) {
    // Submitted while the result was on its way: the caller hears what those before it heard.
    const Status late(gwAborted, "the step was aborted before this operation was submitted",
                      "End the step and run it again");
    return Refuse(*operation, last_reason_.ok() ? late
                                                : FromMyPointOfView(last_reason_, options_.rank,
                                                                    operation->Text()));
  }
  operation->op_seq = ahead == 0 ? submitted_++ : submitted_later_++;
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
  SetProgress();
  HearMine();
}

void EngineCore::EndTurn(const TurnEnd& end) {
  // Aborted while the caller did not know yet.
  if (static_cast<int16_t>(static_cast<uint16_t>(end.turn - turn_)) < 0) {
    if (end.no_wait) GiveUp(end.step);
    return;
  }
  const uint32_t submitted = end.turn == turn_ ? submitted_ : submitted_later_;
  Note({.kind = RecordKind::kStepEnd,
        .turn = end.turn,
        .step = end.step,
        .value = static_cast<int32_t>(submitted)});
  ends_.push_back(end);
  last_move_ns_ = clock_->NowNs();
  if (end.turn == turn_) driver_.SetSubmitted(submitted_);
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
  bool moved = driver_.Poll();
  moved |= AdvanceFinishedRuns();
  moved |= HandleDriverErrors();
  if (!revoked_) {
    moved |= ComputeLocalOnce();
    moved |= AdmitSlices();
  }
  moved |= MaybeVote();
  moved |= MaybeEndTurn();
  // Heartbeats are no progress: they go on while an operation hangs.
  moved_ |= moved;
  if (!moved) CheckTimeouts();
  return moved || heard;
}

// ---- slices ----

bool EngineCore::AdmitSlices() {
  bool moved = false;
  for (Progress& progress : queue_) {
    if (progress.operation->turn != turn_) break;
    if (!progress.prepared) {
      if (static_cast<int>(active_.size()) >= options_.window) return moved;
      if (Status s = progress.operation->Prepare(); !s.ok()) {
        RevokeTurn(std::move(s), progress.operation->op_seq, true);
        return true;
      }
      progress.prepared = true;
    }
    while (progress.admitted < progress.operation->slices()) {
      if (static_cast<int>(active_.size()) >= options_.window || revoked_) return moved;
      const int64_t index = progress.admitted++;
      moved = true;
      StatusOr<std::unique_ptr<SliceOp>> slice = progress.operation->MakeSlice(index);
      if (!slice.ok()) {
        RevokeTurn(slice.status(), progress.operation->op_seq, true);
        return true;
      }
      // An operation of one slice is admitted when it is submitted and done when it is complete.
      if (progress.operation->slices() > 1) {
        Note({.kind = RecordKind::kAdmit,
              .turn = turn_,
              .op_seq = progress.operation->op_seq,
              .slice = static_cast<uint32_t>(index)});
      }
      active_.push_back({progress.operation,
                         std::move(*slice),
                         {progress.operation->op_seq, static_cast<uint32_t>(index)},
                         {}});
      Advance(active_.size() - 1);
      PassFailpoint(Failpoint::kSlice);
    }
  }
  return moved;
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
      ++active.key.run;
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
  const std::shared_ptr<Operation> operation = active_[index].operation;
  const RunKey active_key = active_[index].key;
  operation->stats.Add(active_[index].slice->stats());
  active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(index));
  ++slices_done_;
  if (operation->slices() > 1) {
    Note({.kind = RecordKind::kSliceDone,
          .turn = turn_,
          .op_seq = active_key.op_seq,
          .slice = active_key.slice});
  }
  auto it = std::find_if(queue_.begin(), queue_.end(),
                         [&](const Progress& p) { return p.operation == operation; });
  ++it->finished;
  if (it->complete()) FinishOperation(&*it);
}

void EngineCore::FinishOperation(Progress* progress) {
  Operation& operation = *progress->operation;
  nonfinite_ |= operation.in_step && operation.stats.nonfinite > 0;
  done_.push_back(progress->operation);
  if (done_.size() > kKeptOperations) done_.pop_front();
  CompleteOperation(operation, Status());
  SkipDone();
}

// Operations complete out of order inside the window; frames for those below the first incomplete
// one are mismatches.
void EngineCore::SkipDone() {
  while (!queue_.empty() && queue_.front().operation->turn == turn_ && queue_.front().complete()) {
    queue_.pop_front();
  }
  const bool waiting = !queue_.empty() && queue_.front().operation->turn == turn_;
  driver_.SetCompletedBelow(waiting ? queue_.front().operation->op_seq : submitted_);
  SetProgress();
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

void EngineCore::SetProgress() {
  const bool waiting = !queue_.empty() && queue_.front().operation->turn == turn_;
  control_->SetProgress(
      {.turn = turn_,
       .counters = {.slices_done = slices_done_,
                    .submitted = submitted_,
                    .op_seq = waiting ? queue_.front().operation->op_seq : submitted_}});
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

// ---- failures ----

Status EngineCore::Locate(Status status, uint32_t op_seq) const {
  for (const Progress& progress : queue_) {
    if (progress.operation->turn == turn_ && progress.operation->op_seq == op_seq) {
      return std::move(status)
          .WithOp(progress.operation->name, op_seq)
          .WithTensor(progress.operation->tensor);
    }
  }
  return status;
}

OpText EngineCore::OpTextOf(uint32_t op_seq) const {
  for (const Progress& progress : queue_) {
    if (progress.operation->turn == turn_ && progress.operation->op_seq == op_seq)
      return progress.operation->Text();
  }
  for (const auto& operation : done_) {
    if (operation->op_seq == op_seq) return operation->Text();
  }
  return {};
}

std::string EngineCore::TextOf(uint32_t op_seq) const { return EncodeOpText(OpTextOf(op_seq)); }

bool EngineCore::HandleDriverErrors() {
  bool moved = false;
  if (std::optional<ProtocolError> error = driver_.TakeProtocolError()) {
    // After this rank's vote others may be in the next turn, and a damaged frame one of theirs.
    if (voted_ && error->next_turn) damaged_ = error->status;
    RevokeTurn(std::move(error->status), error->key.op_seq, true);
    moved = true;
  }
  for (auto& [peer, cause] : driver_.TakeLostPeers()) {
    lost_by_transport_.push_back({peer, std::move(cause), clock_->NowNs()});
  }
  return moved;
}

void EngineCore::RevokeUnlessOk(Status status) {
  if (!status.ok()) RevokeTurn(std::move(status), kNoOpSeq, true);
}

void EngineCore::RevokeTurn(Status why, uint32_t op_seq, bool tell_others) {
  if (revoked_ || !fatal_.ok()) return;
  why = Locate(std::move(why), op_seq).WithRank(options_.rank);
  revoked_op_ = op_seq;
  driver_.CancelAll(why);
  for (ActiveSlice& active : active_) graveyard_.push_back(std::move(active.slice));
  active_.clear();
  quiet_deadline_ns_ = clock_->NowNs() + options_.abort_timeout_ns;
  if (tell_others) {
    ControlMessage message = {
        .turn = turn_,
        .fields = RevokeFields{.op_seq = op_seq,
                               .culprit = static_cast<uint16_t>(options_.rank),
                               .scope = RevokeScope::kStep},
        .body = EncodeStatus(why)};
    (void)control_->Broadcast(std::move(message));
  }
  NoteStatus(
      {.kind = RecordKind::kRevoke, .turn = turn_, .op_seq = op_seq, .value = why.detail().rank},
      why);
  revoked_ = std::move(why);
}

void EngineCore::Fatal(const Status& status) {
  if (!fatal_.ok()) return;
  fatal_ = WithWaiting(status, driver_.DescribeWaiting());
  NoteStatus({.kind = RecordKind::kError, .turn = turn_, .op_seq = kNoOpSeq}, status);
  driver_.CancelAll(status);
  for (ActiveSlice& active : active_) graveyard_.push_back(std::move(active.slice));
  active_.clear();
  quiet_deadline_ns_ =
      clock_->NowNs() + std::min<int64_t>(options_.abort_timeout_ns, 1'000'000'000);
}

// Nobody waited for the outcome, so the caller may have updated from a step that was aborted. The
// others are told: for some of them the turn may have ended before they began the step.
void EngineCore::GiveUp(uint64_t step) {
  Status why(
      gwRevoked,
      {.message = fmt::format("step {} was aborted after it was ended without waiting", step),
       .hint = "Restart from a checkpoint; pass gwStepEnd an outcome to be able to retry"});
  (void)control_->Broadcast(
      {.turn = turn_,
       .fields = RevokeFields{.culprit = kAllRanks, .scope = RevokeScope::kEpoch},
       .body = EncodeStatus(why)});
  Fatal(std::move(why).WithRank(options_.rank));
}

void EngineCore::Abort(const Status& status) { Fatal(status); }

// Requests complete only when the transport has let go of their memory, or its time is up.
bool EngineCore::DrainFatal() {
  if (fatal_told_) return transport_->Progress(&driver_) > 0;
  const bool moved = transport_->Progress(&driver_) > 0;
  if (!driver_.Quiet() && clock_->NowNs() < quiet_deadline_ns_) return moved;
  fatal_told_ = true;
  // The operations name themselves; a call that comes later hears which one was under way.
  Status told = fatal_;
  if (!queue_.empty()) told = Locate(std::move(told), queue_.front().operation->op_seq);
  for (Progress& progress : queue_) {
    if (!progress.operation->done.load(std::memory_order_relaxed))
      CompleteOperation(*progress.operation, fatal_);
  }
  queue_.clear();
  ends_.clear();
  if (driver_.Quiet()) graveyard_.clear();
  listener_->OnFatal(told);
  return true;
}

void EngineCore::CheckTimeouts() {
  if (CheckLostPeers()) return;
  if (queue_.empty() && ends_.empty() && ballot_.last_vote_ns() == 0) return;
  const int64_t now_ns = clock_->NowNs();
  if (std::exchange(moved_, false)) {
    last_move_ns_ = now_ns;
    waiting_noted_ = false;
  }
  const int64_t still_ns = now_ns - last_move_ns_;
  if (still_ns > kNoteWaitingNs && !std::exchange(waiting_noted_, true)) NoteWaiting();
  if (CheckLeft(still_ns) || CheckOperationTime(still_ns)) return;
  (void)CheckVoteTime(now_ns);
}

void EngineCore::NoteWaiting() {
  const std::optional<WaitingRun> waiting = driver_.Waiting();
  if (!waiting) return;
  const PeerProgress& p = waiting->progress;
  Note({.kind = RecordKind::kWaiting,
        .turn = turn_,
        .op_seq = waiting->key.op_seq,
        .slice = waiting->key.slice,
        .peer = p.peer,
        .progress = {static_cast<uint16_t>(p.sends_done), static_cast<uint16_t>(p.sends),
                     static_cast<uint16_t>(p.recvs_done), static_cast<uint16_t>(p.recvs)}});
}

// A rank that has left properly may close its end while others still work.
bool EngineCore::CheckLostPeers() {
  std::erase_if(lost_by_transport_, [this](const Loss& loss) { return left_[loss.peer]; });
  const bool needed = !queue_.empty() || !ends_.empty();
  if (!needed || lost_by_transport_.empty()) return false;
  const Loss& loss = lost_by_transport_.front();
  if (clock_->NowNs() - loss.ns <= kVerdictNs) return false;
  Status why(gwPeerLost, {.message = fmt::format("the connection to rank {} broke: {}", loss.peer,
                                                 loss.cause.detail().message),
                          .hint = "Restart the job, or continue without that rank",
                          .rank = options_.rank,
                          .peer = loss.peer});
  (void)control_->Broadcast({.turn = turn_,
                             .fields = RevokeFields{.culprit = static_cast<uint16_t>(loss.peer),
                                                    .scope = RevokeScope::kEpoch},
                             .body = EncodeStatus(why)});
  Fatal(why);
  return true;
}

// Ranks that have left matter only to who still needs something of theirs.
bool EngineCore::CheckLeft(int64_t still_ns) {
  if (still_ns <= kLeftNs) return false;
  int peer = driver_.AwaitedPeer();
  if (options_.rank == 0 && voted_ && peer < 0) {
    const std::vector<int> missing = ballot_.Missing();
    const auto gone = std::find_if(missing.begin(), missing.end(), [&](int r) { return left_[r]; });
    if (gone != missing.end()) peer = *gone;
  }
  // Rank 0 waits for the others before it leaves; without it nobody hears of anybody any more.
  if (peer < 0 || !left_[peer]) peer = 0;
  if (!left_[peer]) return false;
  Fatal(
      Status(gwPeerLost, {.message = fmt::format("rank {} has left the communicator", peer),
                          .hint = "All ranks must submit the same operations before they finalize",
                          .rank = options_.rank,
                          .peer = peer}));
  return true;
}

bool EngineCore::CheckOperationTime(int64_t still_ns) {
  const bool waiting = !revoked_ && !queue_.empty() && queue_.front().operation->turn == turn_;
  if (options_.op_timeout_ns <= 0 || still_ns <= options_.op_timeout_ns || !waiting) return false;
  RevokeTurn(Status(gwTimeout,
                    {.message = fmt::format("no progress for {} ms: {}", still_ns / kNsPerMs,
                                            driver_.DescribeWaiting()),
                     .hint = "Look at what the awaited rank does, or raise GRADWIRE_OP_TIMEOUT_MS",
                     .peer = driver_.AwaitedPeer()}),
             queue_.front().operation->op_seq, true);
  return true;
}

// Rank 0 hears all votes, so it alone can tell who keeps the others waiting, itself included.
bool EngineCore::CheckVoteTime(int64_t now_ns) {
  const int64_t still_ns = now_ns - std::max(ballot_.last_vote_ns(), last_move_ns_);
  if (options_.op_timeout_ns <= 0 || ballot_.last_vote_ns() == 0 ||
      still_ns <= options_.op_timeout_ns || revoked_ || result_)
    return false;
  const std::vector<int> silent = ballot_.Missing();
  RevokeTurn(Status(gwTimeout,
                    {.message = fmt::format("rank {} has not ended the step, others have {} ms ago",
                                            fmt::join(silent, ", "), still_ns / kNsPerMs),
                     .hint = "Look at what that rank does, or raise GRADWIRE_OP_TIMEOUT_MS",
                     .peer = silent.front()}),
             kNoOpSeq, true);
  return true;
}

// ---- the vote ----

bool EngineCore::MaybeVote() {
  if (voted_) return false;
  if (revoked_) {
    SendVote(ends_.empty() ? TurnEnd{} : ends_.front(), false);
    return true;
  }
  const bool open = !queue_.empty() && queue_.front().operation->turn == turn_;
  if (ends_.empty() || open) return false;
  SendVote(ends_.front(), true);
  return true;
}

// Empty: as before. Not with a vote against, whose body tells of an operation.
std::string EngineCore::TableToTell(const TurnEnd& end) {
  if (end.table == nullptr || told_table_ == end.table_digest) return {};
  told_table_ = end.table_digest;
  return *end.table;
}

void EngineCore::SendVote(const TurnEnd& end, bool ok) {
  PassFailpoint(Failpoint::kVote);
  voted_ = true;
  NoteStatus({.kind = RecordKind::kVote,
              .turn = turn_,
              .op_seq = revoked_op_,
              .value = static_cast<int32_t>(submitted_)},
             revoked_.value_or(Status()));
  ControlMessage message = {.turn = turn_,
                            .fields = VoteFields{.step = end.step,
                                                 .digest = end.digest,
                                                 .table_digest = end.table_digest,
                                                 .submitted = submitted_,
                                                 .ok = static_cast<uint8_t>(ok),
                                                 .nonfinite = static_cast<uint8_t>(nonfinite_),
                                                 .no_wait = static_cast<uint8_t>(end.no_wait)},
                            .body = ok ? TableToTell(end) : TextOf(revoked_op_)};
  if (options_.rank == 0) return OnVote(0, message);
  // Texts of operations and tables are bounded (operations.cc, tensor_list.cc): nothing refuses
  // this.
  (void)control_->SendTo(0, std::move(message));
}

void EngineCore::OnControl(const ControlMessage& message) {
  if (message.get<ByeFields>() != nullptr) {
    left_[message.src] = true;
    return;
  }
  if (!fatal_.ok()) return;
  const auto* revoke = message.get<RevokeFields>();
  if (revoke != nullptr && revoke->scope == RevokeScope::kEpoch && revoke->culprit == kAllRanks)
    return Fatal(DecodeStatus(message.body).WithRank(options_.rank));
  if (message.turn == turn_) return HandleControl(message);
  // A rank that has heard the result of this turn may be in the next one already; an older turn's
  // words are void.
  if (message.turn == static_cast<uint16_t>(turn_ + 1)) later_.push_back(message);
}

void EngineCore::HandleControl(const ControlMessage& message) {
  if (const auto* heartbeat = message.get<HeartbeatFields>()) {
    RevokeUnlessOk(ballot_.HearSubmitted(message.src, heartbeat->submitted));
  } else if (message.get<VoteFields>() != nullptr) {
    OnVote(message.src, message);
  } else if (message.get<RevokeFields>() != nullptr) {
    OnRevoke(message);
  } else if (const auto* fields = message.get<ResultFields>()) {
    result_ =
        TurnResult{turn_, fields->step, fields->outcome,
                   fields->outcome == StepOutcome::kCommit ? Status() : DecodeStatus(message.body)};
  }
}

void EngineCore::OnRevoke(const ControlMessage& message) {
  const auto* revoke = message.get<RevokeFields>();
  if (revoke->scope == RevokeScope::kEpoch) return;  // OnRankLost tells
  RevokeTurn(DecodeStatus(message.body), revoke->op_seq, false);
}

void EngineCore::OnRankLost(int rank, const Status& cause) {
  Note(
      {.kind = RecordKind::kPeerLost, .turn = turn_, .peer = rank, .text = cause.detail().message});
  // A rank may leave as soon as it has told the result: that came first.
  (void)MaybeEndTurn();
  if (!fatal_.ok()) return;
  Fatal(Status(gwPeerLost, {.message = cause.detail().message,
                            .hint = "Restart the job, or continue without that rank",
                            .rank = options_.rank,
                            .peer = rank}));
}

// Rank 0 hears of its own submissions here.
void EngineCore::HearMine() {
  if (options_.rank == 0) RevokeUnlessOk(ballot_.HearSubmitted(0, submitted_));
}

void EngineCore::OnVote(int from, const ControlMessage& message) {
  const VoteFields& fields = *message.get<VoteFields>();
  const int64_t now_ns = clock_->NowNs();
  if (from != 0) {  // its own is noted where it is made
    Note({.kind = RecordKind::kVoteHeard,
          .time_ns = now_ns,
          .turn = turn_,
          .peer = from,
          .status = fields.ok != 0 ? gwSuccess : gwAborted,
          .value = static_cast<int32_t>(fields.submitted)});
  }
  RevokeUnlessOk(ballot_.HearVote(from, fields, message.body, now_ns));
  DecideIfComplete();
}

void EngineCore::DecideIfComplete() {
  if (result_ || !ballot_.Missing().empty()) return;
  TurnResult result = ballot_.Decide(turn_, revoked_.value_or(Status()), options_.nonfinite);
  const int peer = result.reason.detail().peer;
  ControlMessage message = {
      .turn = turn_,
      .fields = ResultFields{.step = result.step,
                             .culprit = peer < 0 ? kAllRanks : static_cast<uint16_t>(peer),
                             .outcome = result.outcome},
      .body = result.reason.ok() ? std::string() : EncodeStatus(result.reason)};
  PassFailpoint(Failpoint::kResult);
  (void)control_->Broadcast(std::move(message));
  result_ = std::move(result);
}

bool EngineCore::MaybeEndTurn() {
  if (!result_) return false;
  // An abort that no revoke announced (a disagreement seen by the vote itself): nothing is under
  // way here.
  if (!driver_.Quiet() && clock_->NowNs() < quiet_deadline_ns_) return false;
  TurnResult result = *std::exchange(result_, std::nullopt);
  if (driver_.Quiet()) graveyard_.clear();
  NoteStatus({.kind = RecordKind::kResult,
              .turn = turn_,
              .step = result.step,
              .value = static_cast<int32_t>(result.outcome)},
             result.reason);
  std::optional<uint64_t> unwitnessed;
  if (!ends_.empty() && ends_.front().turn == turn_) {
    const TurnEnd& end = ends_.front();
    if (end.no_wait && result.outcome != StepOutcome::kCommit) unwitnessed = end.step;
    ends_.pop_front();
  }
  last_reason_ = result.reason;
  result.reason = FromMyPointOfView(std::move(result.reason), options_.rank, OpTextOf(revoked_op_));
  while (!queue_.empty() && queue_.front().operation->turn == turn_) {
    const std::shared_ptr<Operation> operation = queue_.front().operation;
    queue_.pop_front();
    if (operation->done.load(std::memory_order_relaxed)) continue;
    CompleteOperation(*operation, result.reason.ok()
                                      ? Status(gwInternalError, "its step was committed before it")
                                      : result.reason);
  }
  revoked_.reset();
  revoked_op_ = kNoOpSeq;
  voted_ = nonfinite_ = false;
  done_.clear();
  ++turn_;
  submitted_ = std::exchange(submitted_later_, 0);
  ballot_.BeginTurn();
  HearMine();
  driver_.BeginTurn(turn_);
  if (!ends_.empty()) driver_.SetSubmitted(submitted_);
  last_move_ns_ = clock_->NowNs();
  SetProgress();
  listener_->OnTurnEnd(result);
  if (unwitnessed) GiveUp(*unwitnessed);
  if (damaged_) RevokeTurn(*std::exchange(damaged_, std::nullopt), kNoOpSeq, true);
  for (const ControlMessage& message : std::exchange(later_, {})) OnControl(message);
  return true;
}

}  // namespace gradwire
