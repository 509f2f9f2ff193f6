#include "cli/launch/end_of_job.h"

#include <csignal>

namespace gradwire {

void EndOfJob::Begin() {
  if (begun()) return;
  stage_ = Stage::kGrace;
  next_ = Deadline::After(clock_, grace_ns_);
}

void EndOfJob::BeginNow() {
  if (stage_ > Stage::kGrace) return;
  stage_ = Stage::kGrace;
  next_ = Deadline::After(clock_, 0);
}

void EndOfJob::Hurry() {
  if (stage_ == Stage::kKilled) return;
  stage_ = Stage::kTerminating;
  next_ = Deadline::After(clock_, 0);
}

int EndOfJob::TakeDueSignal() {
  if (!next_.Expired(clock_)) return 0;
  if (stage_ == Stage::kGrace) {
    stage_ = Stage::kTerminating;
    next_ = Deadline::After(clock_, kTermToKillNs);
    return SIGTERM;
  }
  stage_ = Stage::kKilled;
  next_ = Deadline::Never();
  return SIGKILL;
}

}  // namespace gradwire
