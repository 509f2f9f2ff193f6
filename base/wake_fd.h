// What ends a thread's wait for descriptors from another thread.
#ifndef GRADWIRE_BASE_WAKE_FD_H_
#define GRADWIRE_BASE_WAKE_FD_H_

#include <cstdint>

#include "base/status.h"
#include "base/unique_fd.h"

namespace gradwire {

// An eventfd. Threads: Wake by any at any time; one waits and takes.
class WakeFd {
 public:
  // gwSystemError: no descriptor is left.
  Status Open();
  // Readable from Wake until the wakes are taken.
  int get() const { return fd_.get(); }

  void Wake();
  // All so far; not blocking.
  void Take();

  // Until `fd` is readable, Wake is called or was called before, or the time has passed; takes the
  // wakes. gwSystemError: the system cannot wait.
  Status Wait(int fd, int64_t timeout_ns);

 private:
  UniqueFd fd_;
};

}  // namespace gradwire

#endif  // GRADWIRE_BASE_WAKE_FD_H_
