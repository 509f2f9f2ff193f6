// The vote of an EngineCore, what the control plane brings to it, and the end of a turn.
#include "runtime/engine/engine_core.h"

#include <string>
#include <utility>

#include "base/failpoint.h"

namespace gradwire {

bool EngineCore::MaybeVote() {
  // It has voted about this one. A vote in favour, which is about kNoOpSeq, becomes one against
  // where an operation is in doubt. Where none is it stands: rank 0 aborts for what the revoke told
  // it.
  if (this_turn_.voted == this_turn_.revoked_op) return false;
  if (this_turn_.revoked) {
    SendVote(ends_.empty() ? TurnEnd{} : ends_.front(), false);
    return true;
  }
  if (ends_.empty() || pipeline_.oldest() != nullptr) return false;
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
  this_turn_.voted = this_turn_.revoked_op;
  notes_.Voted(turn_, this_turn_.revoked_op, pipeline_.submitted(),
               this_turn_.revoked.value_or(Status()));
  const std::string table = ok ? TableToTell(end) : std::string();
  // Only where that ends the step, which then makes no plan.
  const bool nonfinite = (this_turn_.nonfinite & kInResult) != 0;
  const std::string& seen = nonfinite ? this_turn_.nonfinite_tensor : end.observation;
  ControlMessage message = {
      .turn = turn_,
      .fields = VoteFields{.step = end.step,
                           .digest = this_turn_.replicated_digest,
                           .table_digest = end.table_digest,
                           .submitted = pipeline_.submitted(),
                           .plan_epoch = plan_epoch_,
                           .ok = static_cast<uint8_t>(ok),
                           .nonfinite = this_turn_.nonfinite,
                           .no_wait = static_cast<uint8_t>(end.no_wait),
                           .unfinished = static_cast<uint8_t>(this_turn_.unfinished > 0),
                           .table_bytes = static_cast<uint32_t>(table.size()),
                           .op_seq = this_turn_.revoked_op,
                           .draws = draws_},
      .body = ok ? table + seen : EncodeOpText(TextOf(this_turn_.revoked_op))};
  if (options_.rank == 0) return OnVote(0, message);
  // Texts of operations, tables and names are bounded (operations.cc, tensor_list.cc,
  // engine_core.cc): nothing refuses this.
  (void)control_->SendTo(0, std::move(message));
}

void EngineCore::OnControl(const ControlMessage& message) {
  if (message.get<ByeFields>() != nullptr) return OnBye(message.src);
  if (!fatal_.ok()) return;
  const auto* revoke = message.get<RevokeFields>();
  if (revoke != nullptr && revoke->scope == RevokeScope::kEpoch)
    return OnEpochRevoked(*revoke, DecodeStatus(message.body));
  if (message.turn == turn_) return HandleControl(message);
  // A rank that has heard the result of this turn may be in the next one already; an older turn's
  // words are void.
  if (message.turn == static_cast<uint16_t>(turn_ + 1)) later_.push_back(message);
}

// A revoked turn waits for its vote no more.
void EngineCore::OnBye(int rank) {
  departures_.HearBye(rank);
  if (options_.rank == 0) DecideIfComplete();
}

void EngineCore::HandleControl(const ControlMessage& message) {
  if (const auto* heartbeat = message.get<HeartbeatFields>()) {
    RevokeUnlessOk(ballot_.HearSubmitted(message.src, heartbeat->submitted));
    CheckAlike(message.src, *heartbeat);
    if (heartbeat->is_through != 0) departures_.HearThrough(message.src);
    if (message.src == 0) hub_.Hear(*heartbeat, clock_->NowNs());
  } else if (message.get<VoteFields>() != nullptr) {
    OnVote(message.src, message);
  } else if (const auto* revoke = message.get<RevokeFields>()) {
    RevokeTurn(DecodeStatus(message.body), revoke->op_seq, false);
  } else if (const auto* fields = message.get<ResultFields>()) {
    const bool commit = fields->outcome == StepOutcome::kCommit;
    this_turn_.result = TurnResult{turn_,
                                   fields->step,
                                   fields->outcome,
                                   commit ? Status() : DecodeStatus(message.body),
                                   commit ? message.body : std::string(),
                                   fields->begins_anew != 0,
                                   fields->draws};
  }
}

// Rank 0 hears of its own submissions here.
void EngineCore::HearMine() {
  if (options_.rank == 0) RevokeUnlessOk(ballot_.HearSubmitted(0, pipeline_.submitted()));
}

void EngineCore::OnVote(int from, const ControlMessage& message) {
  const VoteFields& fields = *message.get<VoteFields>();
  // Its own is noted where it is made.
  if (from != 0) notes_.VoteHeard(turn_, from, fields);
  RevokeUnlessOk(ballot_.HearVote(from, fields, message.body, clock_->NowNs()));
  DecideIfComplete();
}

void EngineCore::DecideIfComplete() {
  if (!fatal_.ok() || this_turn_.result) return;
  if (this_turn_.revoked ? !ballot_.MayAbort(departures_) : !ballot_.complete()) return;
  TurnResult result =
      ballot_.Decide(turn_, this_turn_.revoked.value_or(Status()), options_.nonfinite);
  if (result.outcome == StepOutcome::kCommit)
    result.order = listener_->OnObservations(turn_, ballot_.observations());
  const int peer = result.reason.detail().peer;
  ControlMessage message = {
      .turn = turn_,
      .fields = ResultFields{.step = result.step,
                             .plan_epoch = plan_epoch_,
                             .culprit = peer < 0 ? kAllRanks : static_cast<uint16_t>(peer),
                             .outcome = result.outcome,
                             .new_plan = static_cast<uint8_t>(!result.order.empty()),
                             .begins_anew = static_cast<uint8_t>(result.begins_anew),
                             .draws = result.draws},
      .body = result.reason.ok() ? result.order : EncodeStatus(result.reason)};
  PassFailpoint(Failpoint::kResult);
  (void)control_->Broadcast(std::move(message));
  this_turn_.result = std::move(result);
}

// ---- the end of a turn ----

bool EngineCore::MaybeEndTurn() {
  if (!this_turn_.result) return false;
  // An abort that no revoke announced (a disagreement seen by the vote itself): nothing is under
  // way here.
  if (!driver_.Quiet() && clock_->NowNs() < quiet_deadline_ns_) return false;
  TurnResult result = *std::exchange(this_turn_.result, std::nullopt);
  if (!pipeline_.LetGo()) WarnOfUnquiet();
  notes_.TurnEnded(result);
  const std::optional<uint64_t> unwitnessed = TakeEnd(result.outcome);
  result.reason = WithMyNames(std::move(result.reason));
  last_reason_ = result.reason;
  EndQueued(result.reason);
  if (!result.order.empty()) notes_.PlanOrdered(turn_, ++plan_epoch_);
  BeginTurn();
  listener_->OnTurnEnd(result);
  if (unwitnessed) GiveUp(*unwitnessed);
  if (damaged_) RevokeTurn(*std::exchange(damaged_, std::nullopt), kNoOpSeq, true);
  for (const ControlMessage& message : std::exchange(later_, {})) OnControl(message);
  return true;
}

// The caller's of this turn is over, if there was one. The step that it takes for committed though
// it is not.
std::optional<uint64_t> EngineCore::TakeEnd(StepOutcome outcome) {
  if (ends_.empty() || ends_.front().turn != turn_) return std::nullopt;
  const TurnEnd end = std::move(ends_.front());
  ends_.pop_front();
  if (!end.no_wait || outcome == StepOutcome::kCommit) return std::nullopt;
  return end.step;
}

void EngineCore::EndQueued(const Status& reason) {
  while (pipeline_.oldest() != nullptr) {
    CompleteOperation(
        *pipeline_.front(),
        reason.ok() ? Status(gwInternalError, "its step was committed before it") : reason);
    pipeline_.PopFront();
  }
}

void EngineCore::BeginTurn() {
  ++turn_;
  this_turn_ = {};
  pipeline_.BeginTurn(turn_);
  ballot_.BeginTurn();
  HearMine();
  driver_.BeginTurn(turn_);
  if (!ends_.empty()) driver_.SetSubmitted(pipeline_.submitted());
  still_.Restart(clock_->NowNs());
  has_progress_ = true;
}

}  // namespace gradwire
