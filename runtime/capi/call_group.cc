#include "runtime/capi/call_group.h"

#include <algorithm>
#include <deque>

namespace gradwire {
namespace {

constexpr char kCaller[] = "gwGroupEnd";  // of all that runs a group

}  // namespace

ThreadGroup& ThreadGroup::Current() {
  thread_local ThreadGroup group;
  return group;
}

ThreadGroup::~ThreadGroup() {
  for (const auto& [comm, group] : calls_) --comm->groups;
}

CallGroup& ThreadGroup::Of(gwComm_t comm) {
  auto it = std::find_if(calls_.begin(), calls_.end(),
                         [&](const auto& entry) { return entry.first == comm; });
  if (it != calls_.end()) return it->second;
  ++comm->groups;
  return calls_.emplace_back(comm, CallGroup()).second;
}

gwResult_t ThreadGroup::Note(gwComm_t comm, gwResult_t result) {
  if (result == gwSuccess || !open() || result_ != gwSuccess) return result;
  result_ = result;
  error_ = LastError(comm);
  return result;
}

gwResult_t ThreadGroup::End() {
  if (!open()) {
    return Report(nullptr, Status(gwInvalidUsage, "no group is open", "Call gwGroupStart before"),
                  kCaller);
  }
  if (depth_ > 1) {
    --depth_;
    return gwSuccess;
  }
  const gwResult_t result = Run();
  depth_ = 0;
  calls_.clear();
  error_.clear();
  result_ = gwSuccess;
  return result;
}

gwResult_t ThreadGroup::Run() {
  // Held until all is complete, as a call of its own holds its communicator.
  std::deque<CallGuard> guards;
  for (const auto& [comm, group] : calls_) {
    CallGuard& guard = guards.emplace_back(comm);
    if (!guard.ok()) {
      Note(comm, guard.Refuse(kCaller));
    } else {
      Note(comm, Report(comm, comm->comm->Check(group), kCaller));
    }
    // Until the guard holds it this keeps the communicator from being destroyed.
    --comm->groups;
  }
  std::vector<std::pair<gwComm_t, IssuedCalls>> under_way;
  for (const auto& [comm, group] : calls_) {
    if (result_ != gwSuccess) break;
    StatusOr<IssuedCalls> issued = comm->comm->Issue(group);
    if (issued.ok()) under_way.emplace_back(comm, std::move(*issued));
    Note(comm, Report(comm, issued.status(), kCaller));
  }
  for (const auto& [comm, issued] : under_way) {
    Note(comm, Report(comm, comm->comm->Finish(issued), kCaller));
  }
  if (result_ != gwSuccess) ThreadError() = error_;
  return result_;
}

Status CheckUngrouped(gwComm_t comm) {
  if (comm->groups.load() == 0) return Status();
  return Status(gwInvalidUsage, "calls of this communicator wait in a group",
                "Call gwGroupEnd first");
}

}  // namespace gradwire
