#include "base/service_thread.h"

#include <pthread.h>
#include <signal.h>

#include <string>
#include <system_error>
#include <utility>

namespace gradwire {

StatusOr<std::thread> StartServiceThread(const char* name, std::function<void()> body) {
  // A thread inherits the mask of the one that starts it.
  sigset_t blocked, before;
  sigfillset(&blocked);
  // Of the thread's own doing. Blocked, they would end the process past every handler.
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) {
    sigdelset(&blocked, fault);
  }
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  std::thread thread;
  Status status;
  try {
    thread = std::thread(std::move(body));
    pthread_setname_np(thread.native_handle(), name);
  } catch (const std::system_error& e) {
    status = Status(gwSystemError, std::string("cannot start the thread ") + name + ": " + e.what(),
                    "Raise the limit of threads (ulimit -u, or the container's pids.max)");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!status.ok()) return status;
  return thread;
}

}  // namespace gradwire
