// The steps of a Communicator, and the turns that they are to the engine.
#include "runtime/communicator/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/one_line.h"
#include "base/wrapping.h"

namespace gradwire {

// Of a turn that ended without this thread's doing: it was aborted.
Status Communicator::UntoldAbort() {
  if (TurnsAhead(user_turn_, engine_turn_.load()) >= 0) return Status();
  const std::optional<TurnResult> result = ResultOf(user_turn_);
  return result && !result->reason.ok() ? result->reason
                                        : Status(gwAborted, "the step was aborted");
}

// The caller hears of each such turn once, here or as the outcome of the step that it begins in it,
// then goes on in the next.
Status Communicator::CatchUp() {
  FollowLooks();
  Status reason = UntoldAbort();
  if (reason.ok()) return reason;
  if (!step_open_) ++user_turn_;
  ErrorDetail detail = reason.detail();
  detail.hint = step_open_ ? "End the step and run it again" : detail.hint;
  return Status(step_open_ ? gwAborted : reason.code(), std::move(detail));
}

Status Communicator::BeginStep(uint64_t step) {
  GW_RETURN_IF_ERROR(CheckUsable());
  if (step_open_)
    return Status(gwInvalidUsage, "a step is open already", "End it with gwStepEnd first");
  FollowLooks();
  step_open_ = true;
  step_has_submits_ = false;
  step_ = step;
  loss_scale_ = 1.0f;
  step_begin_ns_ = clock_->NowNs();
  step_clock_.Begin(step_begin_ns_);
  tensors_.controller().BeginStep(step, user_turn_);
  engine_->NoteStepBegin(step);
  return Status();
}

Status Communicator::SetLossScale(float scale) {
  GW_RETURN_IF_ERROR(CheckUsable());
  if (!step_open_ || step_has_submits_) {
    return Status(gwInvalidUsage, "the loss scale is set between gwStepBegin and the first submit",
                  "Move the call");
  }
  if (!std::isfinite(scale) || scale <= 0) {
    return Status(gwInvalidArgument,
                  fmt::format("the loss scale {} is not finite and positive", scale));
  }
  loss_scale_ = scale;
  return Status();
}

void Communicator::LeaveStep() {
  step_open_ = false;
  tensors_.controller().EndStep();
  loss_scale_ = 1.0f;
  for (TensorState* tensor : tensors_.table().All()) tensor->submitted = false;
  if (timeline_ == nullptr) return;
  timeline_->Add({.kind = SpanKind::kStep,
                  .begin_ns = step_begin_ns_,
                  .end_ns = clock_->NowNs(),
                  .number = step_});
}

StatusOr<StepEnd> Communicator::EndStep() {
  GW_RETURN_IF_ERROR(CheckUsable());
  if (!step_open_) return Status(gwInvalidUsage, "no step is open", "Begin one with gwStepBegin");
  const uint16_t turn = user_turn_;
  if (TurnsAhead(engine_turn_.load(), turn) <= 0) engine_->EndTurn(tensors_.MakeTurnEnd(Context()));
  const Status waited = WaitForTurn(static_cast<uint16_t>(turn + 1), Deadline::Never());
  LeaveStep();
  // A rank lost right after the outcome does not change it.
  const std::optional<TurnResult> result = ResultOf(turn);
  if (!result && !waited.ok()) return waited;
  ++user_turn_;
  // Only a turn that ended without this rank's doing can be so long ago: it was aborted.
  if (!result) return StepEnd{StepOutcome::kAbort, Status(gwAborted, "the step was aborted")};
  return StepEnd{result->outcome, result->reason};
}

Status Communicator::EndStepNoWait() {
  GW_RETURN_IF_ERROR(CheckUsable());
  if (!step_open_) return Status(gwInvalidUsage, "no step is open", "Begin one with gwStepBegin");
  if (parts_.agreed.nonfinite == NonFinitePolicy::kSkip) {
    return Status(gwInvalidUsage, "the policy nonfinite=skip needs the outcome of every step",
                  "Pass an outcome pointer");
  }
  // One turn may be waiting for its result, not two.
  GW_RETURN_IF_ERROR(WaitForTurn(user_turn_, Deadline::Never()));
  TurnEnd end = tensors_.MakeTurnEnd(Context());
  end.no_wait = true;
  engine_->EndTurn(end);
  ++user_turn_;
  LeaveStep();
  return Status();
}

Status Communicator::AbortStep(std::string_view why) {
  GW_RETURN_IF_ERROR(CheckUsable());
  if (!step_open_) return Status(gwInvalidUsage, "no step is open", "Begin one with gwStepBegin");
  GW_RETURN_IF_ERROR(WaitForTurn(user_turn_, Deadline::Never()));
  const std::string told = why.empty() ? "" : ": " + OneLine(std::string(why));
  const Status reason(gwAborted, fmt::format("rank {} gave the step up{}", parts_.rank, told));
  engine_->WithCore([&](EngineCore& core) { core.RevokeStep(user_turn_, reason); });
  return EndStep().status();
}

// Until the engine has reached `turn`. That turn's result may end the communicator, which is told a
// little later.
Status Communicator::WaitForTurn(uint16_t turn, const Deadline& deadline) {
  auto reached = [&](const EngineCore& core) {
    return is_fatal_.load() || (core.fatal().ok() && TurnsAhead(engine_turn_.load(), turn) >= 0);
  };
  if (!HelpUntil(reached, deadline)) return Status(gwTimeout, "the step has not ended");
  return async_error();
}

// An operation that failed took its turn along. Its error has been told, so the next call must not
// find the turn ended and tell it again.
void Communicator::FollowTurn(uint16_t failed, const Deadline& deadline) {
  const bool left_behind = TurnsAhead(user_turn_, failed) > 0;
  if (step_open_ || left_behind) return;
  (void)WaitForTurn(static_cast<uint16_t>(failed + 1), deadline);
  user_turn_ = static_cast<uint16_t>(failed + 1);
}

void Communicator::FollowLooks() {
  if (failed_turn_) FollowTurn(*std::exchange(failed_turn_, std::nullopt));
}

std::optional<TurnResult> Communicator::ResultOf(uint16_t turn) {
  std::lock_guard lock(mu_);
  auto it = std::find_if(turn_results_.begin(), turn_results_.end(),
                         [&](const TurnResult& r) { return r.turn == turn; });
  if (it == turn_results_.end()) return std::nullopt;
  return *it;
}

}  // namespace gradwire
