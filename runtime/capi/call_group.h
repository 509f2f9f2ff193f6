// What a thread has called between gwGroupStart and gwGroupEnd.
#ifndef GRADWIRE_RUNTIME_CAPI_CALL_GROUP_H_
#define GRADWIRE_RUNTIME_CAPI_CALL_GROUP_H_

#include <string>
#include <utility>
#include <vector>

#include "runtime/capi/handles.h"
#include "runtime/communicator.h"

namespace gradwire {

class ThreadGroup {
 public:
  // The calling thread's.
  static ThreadGroup& Current();
  // A thread may end with a group that is open: its calls are forgotten.
  ~ThreadGroup();

  bool open() const { return depth_ > 0; }
  void Start() { ++depth_; }
  // What `comm` is to issue at the end.
  CallGroup& Of(gwComm_t comm);
  // A call's result: the first error of the group is what its end returns too.
  gwResult_t Note(gwComm_t comm, gwResult_t result);
  // The outermost end issues everything and waits for it.
  gwResult_t End();

 private:
  gwResult_t Run();

  int depth_ = 0;
  std::vector<std::pair<gwComm_t, CallGroup>> calls_;  // in order of their first call
  gwResult_t result_ = gwSuccess;
  std::string error_;
};

// gwInvalidUsage while calls of `comm` wait in a group.
Status CheckUngrouped(gwComm_t comm);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CAPI_CALL_GROUP_H_
