#include "runtime/capi/call_group.h"

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

namespace gradwire {
namespace {

constexpr char kCaller[] = "gwGroupEnd";  // of all that runs a group

// Calls that the engine has. They are waited for whatever happens: they use their callers' memory.
class UnderWay {
 public:
  explicit UnderWay(size_t most) { calls_.reserve(most); }
  ~UnderWay() {
    while (next_ < calls_.size()) {
      try {
        (void)FinishNext();
      } catch (const std::exception&) {
        continue;  // it has ended, and only its words are lost
      }
    }
  }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;

  // Room was reserved: does not throw.
  void Add(gwComm_t comm, IssuedCalls calls) { calls_.emplace_back(comm, std::move(calls)); }
  bool empty() const { return next_ == calls_.size(); }
  // In the order in which they were added.
  std::pair<gwComm_t, Status> FinishNext() {
    const auto& [comm, calls] = calls_[next_++];
    return {comm, comm->comm->Finish(calls)};
  }

 private:
  std::vector<std::pair<gwComm_t, IssuedCalls>> calls_;
  size_t next_ = 0;
};

}  // namespace

ThreadGroup& ThreadGroup::Current() {
  thread_local ThreadGroup group;
  return group;
}

CallGroup& ThreadGroup::Of(gwComm_t comm) {
  auto it = std::find_if(waiting_.begin(), waiting_.end(),
                         [&](const Waiting& waiting) { return waiting.comm == comm; });
  return it != waiting_.end() ? it->calls : waiting_.emplace_back(comm).calls;
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
  // However it ends, also by an exception.
  struct Forgets {
    ThreadGroup* const group;
    ~Forgets() { group->Forget(); }
  } const forgets{this};
  return Run();
}

void ThreadGroup::Forget() {
  depth_ = 0;
  waiting_.clear();
  error_.clear();
  result_ = gwSuccess;
}

gwResult_t ThreadGroup::Run() {
  // Held until all is complete, as a call of its own holds its communicator.
  std::deque<CallGuard> guards;
  for (const Waiting& waiting : waiting_) {
    // Nothing is issued, and what is wrong besides must not take the place of the error's text.
    if (result_ != gwSuccess) break;
    CallGuard& guard = guards.emplace_back(waiting.comm);
    if (!guard.ok()) {
      Note(waiting.comm, guard.Refuse(kCaller));
    } else {
      Note(waiting.comm, Report(waiting.comm, waiting.comm->comm->Check(waiting.calls), kCaller));
    }
  }
  UnderWay under_way(waiting_.size());
  for (const Waiting& waiting : waiting_) {
    if (result_ != gwSuccess) break;
    StatusOr<IssuedCalls> issued = waiting.comm->comm->Issue(waiting.calls);
    if (issued.ok()) under_way.Add(waiting.comm, std::move(*issued));
    Note(waiting.comm, Report(waiting.comm, issued.status(), kCaller));
  }
  while (!under_way.empty()) {
    auto [comm, ended] = under_way.FinishNext();
    Note(comm, Report(comm, std::move(ended), kCaller));
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
