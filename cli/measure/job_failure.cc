#include "cli/measure/job_failure.h"

namespace gradwire {

bool IsConsequence(const Status& status) {
  return status.code() == gwPeerLost || status.code() == gwRevoked || status.code() == gwAborted;
}

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
