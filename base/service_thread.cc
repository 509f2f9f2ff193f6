#include "base/service_thread.h"

#include <pthread.h>
#include <signal.h>

#include <exception>
#include <string>
#include <utility>

namespace gradwire {

namespace {

// While it lives, this thread blocks signals but those of its own doing: blocked, these would end
// the process past every handler.
class BlockSignals {
 public:
  BlockSignals() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) {
      sigdelset(&blocked, fault);
    }
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~BlockSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

StatusOr<std::thread> StartServiceThread(const char* name, std::function<void()> body) {
  try {
    // A thread inherits the mask of the one that starts it.
    const BlockSignals block;
    std::thread thread(std::move(body));
    pthread_setname_np(thread.native_handle(), name);
    return thread;
  } catch (const std::exception& e) {  // no threads left, or no memory for one
    return Status(gwSystemError, std::string("cannot start the thread ") + name + ": " + e.what(),
                  "Raise the limit of threads (ulimit -u, or the container's pids.max)");
  }
}

}  // namespace gradwire
