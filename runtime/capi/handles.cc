#include "runtime/capi/handles.h"

#include <utility>

#include "base/forks.h"
#include "base/one_line.h"

namespace gradwire {

std::string& ThreadError() {
  thread_local std::string text;
  return text;
}

gwComm_t& BusyComm() {
  thread_local gwComm_t comm = nullptr;
  return comm;
}

std::string LastError(gwComm_t comm) {
  return HandleFor(comm) == nullptr ? ThreadError() : comm->comm->last_error();
}

gwResult_t Report(gwComm_t comm, Status status, const char* caller) {
  if (status.ok()) return gwSuccess;
  status = std::move(status).WithOp(caller);
  if (comm != nullptr && comm->comm) {
    status = std::move(status).WithRank(comm->comm->rank());
    comm->comm->SetLastError(OneLine(status.ToString()));
  } else {
    ThreadError() = OneLine(status.ToString());
  }
  return status.code();
}

Status CheckProcess(uint32_t forks) {
  if (forks == ForkGeneration()) return Status();
  return Status(gwInvalidUsage, "the communicator belongs to the process before the fork",
                "Create communicators after forking");
}

Status CheckAnyThread(gwComm_t comm) {
  if (comm == nullptr) return Status(gwInvalidArgument, "the communicator is null");
  return CheckProcess(comm->forks);
}

// A child must not touch locks that a thread of its parent may have held.
gwComm_t HandleFor(gwComm_t comm) {
  return comm != nullptr && comm->forks == ForkGeneration() ? comm : nullptr;
}

CallGuard::CallGuard(gwComm_t comm) : comm_(comm), status_(CheckAnyThread(comm)) {
  if (!status_.ok()) return;
  if (comm->busy.exchange(true, std::memory_order_acquire)) {
    status_ = Status(gwInvalidUsage, "another thread is in a call on this communicator",
                     "Use a communicator from one thread at a time, or make one for each");
  } else {
    owns_ = true;
    BusyComm() = comm;
  }
}

CallGuard::~CallGuard() {
  if (owns_) comm_->busy.store(false, std::memory_order_release);
}

gwResult_t CallGuard::Refuse(const char* caller) {
  return Report(HandleFor(comm_), std::move(status_), caller);
}

}  // namespace gradwire
