#include "cli/measure/job_failure.h"

namespace gradwire {
namespace {

// What a rank meets when another one leaves or aborts, whatever made it do so.
bool IsConsequence(const Status& status) {
  return status.code() == gwPeerLost || status.code() == gwRevoked || status.code() == gwAborted;
}

}  // namespace

void JobFailure::Note(const Status& status) {
  if (status.ok()) return;
  const std::lock_guard lock(mutex_);
  if (kept_.ok() || (IsConsequence(kept_) && !IsConsequence(status))) kept_ = status;
}

Status JobFailure::first() const {
  const std::lock_guard lock(mutex_);
  return kept_;
}

}  // namespace gradwire
