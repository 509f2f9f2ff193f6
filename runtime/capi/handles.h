// What is behind the handles of the C API, and how its functions report and are kept apart.
#ifndef GRADWIRE_RUNTIME_CAPI_HANDLES_H_
#define GRADWIRE_RUNTIME_CAPI_HANDLES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/settings.h"
#include "base/status.h"
#include "gradwire/gradwire.h"
#include "runtime/communicator/communicator.h"

// Opaque to callers, so outside the namespace.
struct gwTensor {
  gwComm_t owner = nullptr;
  gradwire::TensorState* state =
      nullptr;  // null once deregistered; the handle stays with its owner
};

struct gwComm {
  std::unique_ptr<gradwire::Communicator> comm;
  std::vector<std::unique_ptr<gwTensor>> tensors;
  gradwire::Settings settings;    // it was made with; groups split from it inherit them
  uint32_t forks = 0;             // generation of the process that made it
  std::atomic<bool> busy{false};  // a thread is in a call
  std::atomic<int> aborting{0};   // threads in gwCommAbort, which comes at any time
  std::atomic<int> groups{0};     // of threads that hold calls of it
};

struct gwRequest {
  gwComm_t owner = nullptr;  // not to be looked at once the request is done: it may be gone
  uint32_t forks = 0;        // generation of the process that submitted
  std::unique_ptr<gradwire::Request> request;
};

namespace gradwire {

// Text of the calling thread's last error where there is no communicator.
std::string& ThreadError();
// That the thread's present call has marked as busy last; null: none.
gwComm_t& BusyComm();
// What gwGetLastError gives, without touching the copy that the thread's caller may still read.
std::string LastError(gwComm_t comm);

// Keeps the text and returns the code. `comm` may be null. An error that names no operation of the
// engine's names `caller`, the public function: helpers of several pass on theirs.
gwResult_t Report(gwComm_t comm, Status status, const char* caller = __builtin_FUNCTION());

// A struct of the caller's, which may be older or newer than ours: its magic must be right, its
// size is its own. Null is fine. `initializer` is the macro to name in the error.
template <typename Config>
Status CheckConfig(const Config* config, const char* initializer) {
  if (config == nullptr) return Status();
  if (config->magic != GW_CONFIG_MAGIC ||
      config->size < sizeof(size_t) + 2 * sizeof(unsigned int)) {
    return Status(gwInvalidArgument, "the configuration was not initialised",
                  std::string("Start from ") + initializer);
  }
  return Status();
}

// gwInvalidUsage in a child of the process of this ForkGeneration.
Status CheckProcess(uint32_t forks);

// For functions that any thread may call at any time. gwInvalidArgument: null; gwInvalidUsage: a
// child of fork. `Report(HandleFor(comm), status)` is safe for both.
Status CheckAnyThread(gwComm_t comm);
// `comm` if it may be touched, else null.
gwComm_t HandleFor(gwComm_t comm);

// Marks the communicator as busy for the length of a call. A second thread, a child of fork and a
// null handle are refused.
class CallGuard {
 public:
  explicit CallGuard(gwComm_t comm);
  ~CallGuard();
  CallGuard(const CallGuard&) = delete;
  CallGuard& operator=(const CallGuard&) = delete;
  bool ok() const { return status_.ok(); }
  gwResult_t Refuse(const char* caller = __builtin_FUNCTION());

 private:
  gwComm_t comm_;
  Status status_;
  bool owns_ = false;
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CAPI_HANDLES_H_
