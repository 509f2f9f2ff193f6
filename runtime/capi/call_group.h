// What a thread has called between gwGroupStart and gwGroupEnd.
#ifndef GRADWIRE_RUNTIME_CAPI_CALL_GROUP_H_
#define GRADWIRE_RUNTIME_CAPI_CALL_GROUP_H_

#include <deque>
#include <string>

#include "runtime/capi/handles.h"
#include "runtime/communicator/communicator.h"

namespace gradwire {

class ThreadGroup {
 public:
  // The calling thread's.
  static ThreadGroup& Current();
  bool open() const { return depth_ > 0; }
  void Start() { ++depth_; }
  // What `comm` is to issue at the end.
  CallGroup& Of(gwComm_t comm);
  // A call's result: the first error of the group is what its end returns too.
  gwResult_t Note(gwComm_t comm, gwResult_t result);
  // The outermost end issues everything and waits for it.
  gwResult_t End();

 private:
  // The calls of a communicator, which cannot be destroyed until they are forgotten.
  struct Waiting {
    explicit Waiting(gwComm_t owner) : comm(owner) { ++comm->groups; }
    ~Waiting() { --comm->groups; }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    const gwComm_t comm;
    CallGroup calls;
  };

  gwResult_t Run();
  void Forget();

  int depth_ = 0;
  std::deque<Waiting> waiting_;  // in order of their first call; a thread may end with some
  gwResult_t result_ = gwSuccess;
  std::string error_;
};

// gwInvalidUsage while calls of `comm` wait in a group.
Status CheckUngrouped(gwComm_t comm);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CAPI_CALL_GROUP_H_
