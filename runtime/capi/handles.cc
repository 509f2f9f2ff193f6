#include "runtime/capi/handles.h"

#include <utility>

namespace gradwire {

std::string& ThreadError() {
  thread_local std::string text;
  return text;
}

gwResult_t Report(gwComm_t comm, Status status) {
  if (status.ok()) return gwSuccess;
  if (comm != nullptr && comm->comm) {
    status = std::move(status).WithRank(comm->comm->rank());
    comm->comm->SetLastError(status);
  } else {
    ThreadError() = status.ToString();
  }
  return status.code();
}

CallGuard::CallGuard(gwComm_t comm) : comm_(comm) {
  if (comm == nullptr) {
    status_ = Status(gwInvalidArgument, "the communicator is null");
  } else if (comm->pid != getpid()) {
    status_ = Status(gwInvalidUsage, "the communicator belongs to the process before the fork",
                     "Create communicators after forking");
  } else if (comm->busy.exchange(true, std::memory_order_acquire)) {
    status_ = Status(gwInvalidUsage, "another thread is in a call on this communicator",
                     "Use a communicator from one thread at a time, or make one for each");
  } else {
    owns_ = true;
  }
}

CallGuard::~CallGuard() {
  if (owns_) comm_->busy.store(false, std::memory_order_release);
}

gwResult_t CallGuard::Refuse() {
  const bool usable = comm_ != nullptr && comm_->pid == getpid();
  return Report(usable ? comm_ : nullptr, std::move(status_));
}

}  // namespace gradwire
