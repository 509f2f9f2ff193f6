// Failures of an EngineCore: what revokes a turn or ends the epoch.
#include "runtime/engine/engine_core.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "base/log.h"
#include "runtime/engine/end_budget.h"

namespace gradwire {
namespace {

// How long the control plane has to tell who is lost before the transport's word counts.
constexpr int64_t kVerdictNs = 300 * kNsPerMs;

// Who noticed the loss may know what it comes from, as a wall between the machines.
std::string HintOf(const Status& loss) {
  return loss.detail().hint.empty() ? kLostHint : loss.detail().hint;
}

// `waiting` is empty where no run is under way.
Status WithWaiting(const Status& status, const std::string& waiting) {
  if (waiting.empty()) return status;
  ErrorDetail detail = status.detail();
  detail.message += fmt::format(" (in {})", waiting);
  return Status(status.code(), std::move(detail));
}

}  // namespace

Status EngineCore::Locate(Status status, uint32_t op_seq) const {
  const Operation* operation = pipeline_.Find(op_seq);
  if (operation == nullptr) return status;
  return std::move(status).WithOp(operation->name, op_seq).WithTensor(operation->tensor);
}

// Where ranks disagree in what the operation is, each reads its own name of it.
Status EngineCore::WithMyNames(Status reason) const {
  const std::optional<uint64_t> op_seq = reason.detail().op_seq;
  if (!op_seq || !reason.detail().op.empty()) return reason;
  if (pipeline_.Find(*op_seq) != nullptr)
    return Locate(std::move(reason), static_cast<uint32_t>(*op_seq));
  ErrorDetail detail = reason.detail();
  detail.op_seq.reset();
  return Status(reason.code(), std::move(detail));
}

OpText EngineCore::TextOf(uint64_t op_seq) const {
  const Operation* operation = pipeline_.Find(op_seq);
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
  for (auto& [peer, cause] : driver_.TakeLostPeers())
    departures_.NoteLost(peer, std::move(cause), clock_->NowNs());
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
    pipeline_.Stop(why);
    const int64_t now_ns = clock_->NowNs();
    quiet_deadline_ns_ = now_ns + options_.abort_timeout_ns;
    still_.Restart(now_ns);  // whoever is to vote on it has its time from now on
  }
  if (tell_others) {
    TellRevoke({.op_seq = op_seq,
                .culprit = static_cast<uint16_t>(options_.rank),
                .scope = RevokeScope::kStep},
               why);
  }
  notes_.Revoked(turn_, op_seq, why);
  this_turn_.revoked_op = op_seq;
  this_turn_.revoked = std::move(why);
  // At once: what this rank hears next must find its vote to be about this operation.
  (void)MaybeVote();
}

void EngineCore::TellRevoke(const RevokeFields& fields, const Status& why) {
  (void)control_->Broadcast({.turn = turn_, .fields = fields, .body = EncodeStatus(why)});
}

// Of any turn. What condemns a rank is nothing new: OnRankLost has come before it.
void EngineCore::OnEpochRevoked(const RevokeFields& fields, Status why) {
  if (fields.culprit != kAllRanks) return;
  (void)MaybeEndTurn();  // an outcome that came before it stays
  EndEpoch(std::move(why).WithRank(options_.rank));
}

void EngineCore::OnRankLost(int rank, const Status& cause) {
  notes_.PeerLost(turn_, rank, cause);
  // A rank may leave as soon as it has told the result: that came first.
  (void)MaybeEndTurn();
  if (!fatal_.ok()) return;
  EndEpoch(Status(gwPeerLost, {.message = cause.detail().message,
                               .hint = HintOf(cause),
                               .rank = options_.rank,
                               .peer = rank}));
}

// A rank that has left properly may close its end while others still work. Rank 0 tells who has
// left and judges who has not. It may stand still before it does; one that is lost itself ends the
// wait as well. Only where it has left nobody judges.
bool EngineCore::CheckLostPeers() {
  const bool needed = !pipeline_.empty() || !ends_.empty() || !messages_.idle();
  Departures::Loss* const loss = departures_.FirstUnexplainedLoss();
  if (!needed || loss == nullptr) return false;
  if (loss->cause.code() == gwSystemError) {
    EndEpochForAll(Status(
        gwSystemError,
        {.message = fmt::format("rank {} has nothing left to reach rank {} by: {}", options_.rank,
                                loss->peer, loss->cause.detail().message),
         .hint = "Raise the limits of that process (ulimit -n), or look at what uses them up",
         .peer = loss->peer}));
    return true;
  }
  if (clock_->NowNs() - loss->ns <= kVerdictNs) return false;
  Status why(gwPeerLost, {.message = fmt::format("the connection to rank {} broke: {}", loss->peer,
                                                 loss->cause.detail().message),
                          .hint = HintOf(loss->cause),
                          .rank = options_.rank,
                          .peer = loss->peer});
  if (!std::exchange(loss->accused, true)) {
    TellRevoke({.culprit = static_cast<uint16_t>(loss->peer), .scope = RevokeScope::kEpoch}, why);
  }
  if (!departures_.has_left(0)) return false;
  EndEpoch(why);
  return true;
}

void EngineCore::EndEpoch(const Status& status) {
  if (!fatal_.ok()) return;
  Status told = WithWaiting(status, driver_.DescribeWaiting());
  notes_.EpochEnded(turn_, status);
  pipeline_.Stop(status);
  messages_.FailAll(told);
  quiet_deadline_ns_ = clock_->NowNs() + EndBudget{options_.abort_timeout_ns}.quiet_ns();
  fatal_ = std::move(told);  // last: where memory runs out before, it is done again
}

// Nobody waited for the outcome, so the caller may have updated from a step that was aborted. The
// others are told: for some of them the turn may have ended before they began the step.
void EngineCore::GiveUp(uint64_t step) {
  const ErrorDetail& reason = last_reason_.detail();
  EndEpochForAll(
      Status(gwRevoked,
             {.message = fmt::format("step {} was aborted after it was ended without waiting{}{}",
                                     step, reason.message.empty() ? "" : ": ", reason.message),
              .tensor = reason.tensor,
              .hint = "Restart from a checkpoint; pass gwStepEnd an outcome to be able to retry",
              .peer = reason.peer,
              .field = reason.field,
              .expected = reason.expected,
              .actual = reason.actual}));
}

// No rank is condemned, but none can go on.
void EngineCore::EndEpochForAll(Status why) {
  TellRevoke({.culprit = kAllRanks, .scope = RevokeScope::kEpoch}, why);
  EndEpoch(std::move(why).WithRank(options_.rank));
}

// Where memory runs out amid the engine's work nobody knows how far that came. The communicator
// ends, and with it what callers wait for: their buffers must not be used behind their backs.
void EngineCore::EndBroken(const std::exception& error) {
  if (!fatal_.ok()) return;
  const Status why(gwSystemError,
                   {.message = fmt::format("the engine of rank {} cannot go on: {}", options_.rank,
                                           error.what()),
                    .hint = "Destroy this communicator, and leave that process more memory",
                    .peer = options_.rank});
  try {
    TellRevoke({.culprit = kAllRanks, .scope = RevokeScope::kEpoch}, why);
  } catch (const std::exception&) {
    // They hear it when this rank destroys its communicator, if it does not finalize it first.
  }
  EndEpoch(Status(why).WithRank(options_.rank));
}

void EngineCore::Close(const Status& status) {
  if (fatal_told_ || idle()) return;
  EndEpoch(status);
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

// Where memory runs out midway, what is left is told again at the next poll.
void EngineCore::TellFatal() {
  const bool has_let_go = pipeline_.LetGo();
  if (!has_let_go || !messages_.Quiet()) WarnOfUnquiet();
  // The operations name themselves; a call that comes later hears which one was under way.
  Status told = fatal_;
  if (const Operation* oldest = pipeline_.oldest()) told = Locate(std::move(told), oldest->op_seq);
  while (const std::shared_ptr<Operation> operation = pipeline_.front()) {
    CompleteOperation(*operation, fatal_);
    pipeline_.PopFront();
  }
  ends_.clear();
  listener_->OnFatal(told);
  fatal_told_ = true;
}

}  // namespace gradwire
