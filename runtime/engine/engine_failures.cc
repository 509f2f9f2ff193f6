// Failures of an EngineCore: what revokes a turn or ends the epoch, and whom it waits for in vain.
#include "runtime/engine/engine_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "collectives/drivers/submit_mismatch.h"

namespace gradwire {
namespace {

// How long the control plane has to tell who is lost before the transport's word counts.
constexpr int64_t kVerdictNs = 300'000'000;
// A rank that left properly can have nothing more under way after this.
constexpr int64_t kLeftNs = kNsPerSecond;
// Two lanes of each rank are looked at for messages that stand still: not at every poll.
constexpr int64_t kCheckMessagesNs = kNsPerMs;
// Rank 0 serves the others no longer than this after its BYE.
constexpr int64_t kHubGoneNs = 6 * kNsPerSecond;
// How much of abort_timeout_ms, and how long at most, the transport may take to let go of memory
// once the communicator has ended. Destroying keeps a fifth for it.
constexpr int kQuietParts = 10;
constexpr int64_t kMostQuietNs = kNsPerSecond;
// So long a rest is worth a note: whoever reads the recorder of a hung job wants to know.
constexpr int64_t kNoteWaitingNs = kNsPerSecond;
// So long an operation stands still before rank 0 is asked whether it is the same there, and so
// often: frames tell who meets, but of different operations each rank may await another one's.
constexpr int64_t kStandstillNs = 200 * kNsPerMs;

constexpr char kLostHint[] =
    "Destroy this communicator, then restart the job or make a new one of the ranks that are left";

// `waiting` is empty where no run is under way.
Status WithWaiting(const Status& status, const std::string& waiting) {
  if (waiting.empty()) return status;
  ErrorDetail detail = status.detail();
  detail.message += fmt::format(" (in {})", waiting);
  return Status(status.code(), std::move(detail));
}

}  // namespace

// 0: this turn has no operation of that number, or has had it long ago, or it has not begun, which
// may still change what ranks must agree on.
uint64_t EngineCore::SignatureOf(uint64_t op_seq) const {
  const Operation* operation = Find(op_seq);
  const bool waits = std::any_of(queue_.begin(), queue_.end(), [&](const Progress& p) {
    return p.operation.get() == operation && !p.prepared;
  });
  return operation == nullptr || waits ? 0 : operation->signature;
}

// Of this turn; null: it has none of that number, or has had it long ago.
const Operation* EngineCore::Find(uint64_t op_seq) const {
  for (const Progress& progress : queue_) {
    if (progress.operation->turn == turn_ && progress.operation->op_seq == op_seq)
      return progress.operation.get();
  }
  for (const auto& operation : this_turn_.done) {
    if (operation->op_seq == op_seq) return operation.get();
  }
  return nullptr;
}

Status EngineCore::Locate(Status status, uint32_t op_seq) const {
  const Operation* operation = Find(op_seq);
  if (operation == nullptr) return status;
  return std::move(status).WithOp(operation->name, op_seq).WithTensor(operation->tensor);
}

// Where ranks disagree in what the operation is, each reads its own name of it.
Status EngineCore::WithMyNames(Status reason) const {
  const std::optional<uint64_t> op_seq = reason.detail().op_seq;
  if (!op_seq || !reason.detail().op.empty()) return reason;
  if (Find(*op_seq) != nullptr) return Locate(std::move(reason), static_cast<uint32_t>(*op_seq));
  ErrorDetail detail = reason.detail();
  detail.op_seq.reset();
  return Status(reason.code(), std::move(detail));
}

OpText EngineCore::TextOf(uint64_t op_seq) const {
  const Operation* operation = Find(op_seq);
  return operation == nullptr ? OpText() : operation->Text();
}

bool EngineCore::HandleDriverErrors() {
  bool moved = false;
  if (std::optional<ProtocolError> error = driver_.TakeProtocolError()) {
    // After this rank's vote others may be in the next turn, and a damaged frame one of theirs.
    if (this_turn_.voted && error->next_turn) damaged_ = error->status;
    const uint32_t op_seq = error->key ? error->key->op_seq : kNoOpSeq;
    RevokeTurn(std::move(error->status), op_seq, true);
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

void EngineCore::RevokeStep(uint16_t turn, Status why) {
  if (turn == turn_) RevokeTurn(std::move(why), kNoOpSeq, true);
}

// Ranks that notice a mismatch at the same time may notice it at different operations. The first of
// these is the one in doubt, and ranks that have voted vote again about it, so that rank 0 never
// compares the texts of different operations.
void EngineCore::RevokeTurn(Status why, uint32_t op_seq, bool tell_others) {
  const bool is_first = FirstInDoubt(this_turn_.revoked_op, op_seq) != this_turn_.revoked_op;
  if (!fatal_.ok() || (this_turn_.revoked && !is_first)) return;
  why = Locate(std::move(why), op_seq).WithRank(options_.rank);
  if (!this_turn_.revoked) {
    StopSlices(why);
    last_move_ns_ = clock_->NowNs();  // whoever is to vote on it has its time from now on
  }
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
  this_turn_.revoked_op = op_seq;
  this_turn_.revoked = std::move(why);
  // At once: what this rank hears next must find its vote to be about this operation.
  (void)MaybeVote();
}

void EngineCore::StopSlices(const Status& why) {
  driver_.CancelAll(why);
  for (ActiveSlice& active : active_) graveyard_.push_back(std::move(active.slice));
  active_.clear();
  window_.Clear();
  window_.Forget();
  quiet_deadline_ns_ = clock_->NowNs() + options_.abort_timeout_ns;
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
  Fatal(Status(
      gwPeerLost,
      {.message = cause.detail().message, .hint = kLostHint, .rank = options_.rank, .peer = rank}));
}

void EngineCore::Fatal(const Status& status) {
  if (!fatal_.ok()) return;
  fatal_ = WithWaiting(status, driver_.DescribeWaiting());
  NoteStatus({.kind = RecordKind::kError, .turn = turn_, .op_seq = kNoOpSeq}, status);
  driver_.CancelAll(status);
  messages_.FailAll(fatal_);
  for (ActiveSlice& active : active_) graveyard_.push_back(std::move(active.slice));
  active_.clear();
  window_.Clear();
  quiet_deadline_ns_ =
      clock_->NowNs() + std::min(options_.abort_timeout_ns / kQuietParts, kMostQuietNs);
}

// Nobody waited for the outcome, so the caller may have updated from a step that was aborted. The
// others are told: for some of them the turn may have ended before they began the step.
void EngineCore::GiveUp(uint64_t step) {
  const ErrorDetail& reason = last_reason_.detail();
  FatalForAll(
      Status(gwRevoked,
             {.message = fmt::format("step {} was aborted after it was ended without waiting{}{}",
                                     step, reason.message.empty() ? "" : ": ", reason.message),
              .tensor = reason.tensor,
              .hint = "Restart from a checkpoint; pass gwStepEnd an outcome to be able to retry"}));
}

// No rank is condemned, but none can go on.
void EngineCore::FatalForAll(Status why) {
  (void)control_->Broadcast(
      {.turn = turn_,
       .fields = RevokeFields{.culprit = kAllRanks, .scope = RevokeScope::kEpoch},
       .body = EncodeStatus(why)});
  Fatal(std::move(why).WithRank(options_.rank));
}

void EngineCore::Abort(const Status& status) { Fatal(status); }

void EngineCore::Close(const Status& status) {
  if (fatal_told_ || idle()) return;
  Fatal(status);
  (void)DrainFatal();  // one look: the transport may have let go already
  if (!fatal_told_) TellFatal();
}

// Requests complete only when the transport has let go of their memory, or its time is up.
bool EngineCore::DrainFatal() {
  const bool moved = transport_->Progress(&driver_) > 0;
  if (fatal_told_) return moved;
  const bool quiet = driver_.Quiet() && messages_.Quiet();
  if (!quiet && clock_->NowNs() < quiet_deadline_ns_) return moved;
  TellFatal();
  return true;
}

// What is said where a request completes though the transport may still read what it sent from.
void EngineCore::WarnOfUnquiet() {
  GW_LOG(kWarn, kColl,
         "the transport has not let go of memory in time: what operations sent from may be read "
         "until gwCommDestroy");
}

void EngineCore::TellFatal() {
  fatal_told_ = true;
  if (!driver_.Quiet() || !messages_.Quiet()) WarnOfUnquiet();
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
}

// ---- time ----

void EngineCore::CheckTimeouts() {
  if (CheckLostPeers()) return;
  // A revoked turn waits for its result, also where nothing of it was begun here.
  const bool waits = !queue_.empty() || !ends_.empty() || this_turn_.revoked;
  if (!waits && ballot_.last_vote_ns() == 0) return;
  const int64_t now_ns = clock_->NowNs();
  if (std::exchange(moved_, false)) {
    last_move_ns_ = now_ns;
    waiting_noted_ = false;
  }
  const int64_t still_ns = now_ns - last_move_ns_;
  if (still_ns > kNoteWaitingNs && !std::exchange(waiting_noted_, true)) NoteWaiting();
  if (still_ns > kStandstillNs) TellStandstill(now_ns);
  if (CheckLeft(still_ns) || CheckOperationTime(still_ns)) return;
  (void)CheckVoteTime(now_ns);
}

// Calls that nobody will meet end; the rest of the communicator has no part in them.
void EngineCore::CheckMessages() {
  if (messages_.idle()) return;
  const int64_t now_ns = clock_->NowNs();
  if (now_ns < check_messages_ns_) return;
  check_messages_ns_ = now_ns + kCheckMessagesNs;
  messages_.CheckTimes();
  for (int peer = 0; peer < options_.world_size; ++peer) {
    if (!left_[peer] || messages_.StillNs(peer) <= kLeftNs) continue;
    messages_.FailPeer(
        peer, Status(gwPeerLost, {.message = fmt::format("rank {} has left the communicator", peer),
                                  .hint = "It must call what meets this before it finalizes",
                                  .peer = peer}));
  }
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
        .progress = {SaturatedCount(p.sends_done), SaturatedCount(p.sends),
                     SaturatedCount(p.recvs_done), SaturatedCount(p.recvs)}});
}

// Rank 0 hears it sooner than by heartbeats of the control plane.
void EngineCore::TellStandstill(int64_t now_ns) {
  if (options_.rank == 0 || this_turn_.revoked || now_ns - standstill_told_ns_ <= kStandstillNs)
    return;
  const HeartbeatFields mine = MyProgress();
  if (mine.signature == 0) return;
  standstill_told_ns_ = now_ns;
  (void)control_->SendTo(0, {.turn = turn_, .fields = mine});
}

// Also where no frame of it has come here, nor will. What rank 0 does not have yet it hears of
// again.
void EngineCore::CheckAlike(const HeartbeatFields& heard) {
  const uint64_t mine = SignatureOf(heard.op_seq);
  if (heard.signature == 0 || mine == 0 || heard.signature == mine) return;
  RevokeTurn(OperationMismatch(heard.op_seq), heard.op_seq, true);
}

// A rank that has left properly may close its end while others still work.
bool EngineCore::CheckLostPeers() {
  std::erase_if(lost_by_transport_, [this](const Loss& loss) { return left_[loss.peer]; });
  const bool needed = !queue_.empty() || !ends_.empty() || !messages_.idle();
  if (!needed || lost_by_transport_.empty()) return false;
  const Loss& loss = lost_by_transport_.front();
  if (loss.cause.code() == gwSystemError) {
    FatalForAll(Status(
        gwSystemError,
        {.message = fmt::format("rank {} has nothing left to reach rank {} by: {}", options_.rank,
                                loss.peer, loss.cause.detail().message),
         .hint = "Raise the limits of that process (ulimit -n), or look at what uses them up",
         .peer = loss.peer}));
    return true;
  }
  if (clock_->NowNs() - loss.ns <= kVerdictNs) return false;
  Status why(gwPeerLost, {.message = fmt::format("the connection to rank {} broke: {}", loss.peer,
                                                 loss.cause.detail().message),
                          .hint = kLostHint,
                          .rank = options_.rank,
                          .peer = loss.peer});
  (void)control_->Broadcast({.turn = turn_,
                             .fields = RevokeFields{.culprit = static_cast<uint16_t>(loss.peer),
                                                    .scope = RevokeScope::kEpoch},
                             .body = EncodeStatus(why)});
  Fatal(why);
  return true;
}

// -1: nobody. Once rank 0 is gone nobody hears of the others any more.
int EngineCore::WhoLeftTooEarly(int64_t still_ns) const {
  const int awaited = driver_.AwaitedPeer();
  if (awaited >= 0 && left_[awaited]) return awaited;
  if (awaited < 0 && this_turn_.voted && options_.rank != 0 && left_[0]) return 0;
  if (awaited < 0 && this_turn_.voted && options_.rank == 0) {
    for (int r : ballot_.Missing()) {
      if (left_[r]) return r;
    }
  }
  return left_[0] && still_ns > kHubGoneNs ? 0 : -1;
}

// Ranks that have left matter only to who still needs something of theirs; who waits for that one
// in turn is told.
bool EngineCore::CheckLeft(int64_t still_ns) {
  const int peer = still_ns > kLeftNs ? WhoLeftTooEarly(still_ns) : -1;
  if (peer < 0) return false;
  FatalForAll(
      Status(gwPeerLost, {.message = fmt::format("rank {} has left the communicator", peer),
                          .hint = "All ranks must submit the same operations before they finalize",
                          .peer = peer}));
  return true;
}

bool EngineCore::CheckOperationTime(int64_t still_ns) {
  if (this_turn_.revoked || queue_.empty() || queue_.front().operation->turn != turn_) return false;
  const Operation& operation = *queue_.front().operation;
  const int64_t bound_ns =
      operation.patience.ns > 0 ? operation.patience.ns : options_.op_timeout_ns;
  if (bound_ns <= 0 || still_ns <= bound_ns) return false;
  RevokeTurn(
      Status(gwTimeout, {.message = fmt::format("no progress for {} ms: {}", still_ns / kNsPerMs,
                                                driver_.DescribeWaiting()),
                         .hint = fmt::format("Look at what the awaited rank does, or raise {}",
                                             operation.patience.variable),
                         .peer = driver_.AwaitedPeer()}),
      operation.op_seq, true);
  return true;
}

// Rank 0 hears all votes, so it alone can tell who keeps the others waiting, itself included.
bool EngineCore::CheckVoteTime(int64_t now_ns) {
  if (options_.op_timeout_ns <= 0 || ballot_.last_vote_ns() == 0 || this_turn_.result) return false;
  const int64_t still_ns = now_ns - std::max(ballot_.last_vote_ns(), last_move_ns_);
  if (this_turn_.revoked) return CheckVoteAgainst(still_ns);
  if (still_ns <= options_.op_timeout_ns) return false;
  const std::vector<int> silent = ballot_.Missing();
  RevokeTurn(Status(gwTimeout,
                    {.message = fmt::format("rank {} has not ended the step, others have {} ms ago",
                                            fmt::join(silent, ", "), still_ns / kNsPerMs),
                     .hint = "Look at what that rank does, or raise GRADWIRE_OP_TIMEOUT_MS",
                     .peer = silent.front()}),
             kNoOpSeq, true);
  return true;
}

// Engines vote on a revoked step at once, whatever their callers do: one that does not is stuck,
// and there is nothing left to abort.
bool EngineCore::CheckVoteAgainst(int64_t still_ns) {
  if (still_ns <= options_.op_timeout_ns + options_.abort_timeout_ns) return false;
  const std::vector<int> silent = ballot_.Missing();
  FatalForAll(Status(gwTimeout, {.message = fmt::format(
                                     "the vote of rank {} on an aborted step is missing for {} ms",
                                     fmt::join(silent, ", "), still_ns / kNsPerMs),
                                 .hint = "Look at what that rank does, then restart the job",
                                 .peer = silent.front()}));
  return true;
}

}  // namespace gradwire
