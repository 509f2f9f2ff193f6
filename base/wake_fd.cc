#include "base/wake_fd.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/clock.h"

namespace gradwire {

Status WakeFd::Open() {
  fd_.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  return fd_.valid() ? Status::Ok() : ErrnoStatus("cannot make an event descriptor", errno);
}

void WakeFd::Wake() {
  const uint64_t one = 1;
  // It fails only where 2^64 - 1 wakes are pending, which is awake enough.
  (void)!write(fd_.get(), &one, sizeof one);
}

void WakeFd::Take() {
  uint64_t wakes;
  // It fails only where there are none.
  (void)!read(fd_.get(), &wakes, sizeof wakes);
}

Status WakeFd::Wait(int fd, int64_t timeout_ns) {
  const int64_t ns = std::max<int64_t>(timeout_ns, 0);
  const timespec timeout = {.tv_sec = ns / kNsPerSecond, .tv_nsec = ns % kNsPerSecond};
  pollfd fds[] = {{fd, POLLIN, 0}, {fd_.get(), POLLIN, 0}};
  if (ppoll(fds, 2, &timeout, nullptr) < 0 && errno != EINTR) {
    return ErrnoStatus("cannot wait for descriptors", errno);
  }
  if (fds[1].revents != 0) Take();
  return Status::Ok();
}

}  // namespace gradwire
