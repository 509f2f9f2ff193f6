#include "cli/launch/outlet.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "cli/launch/posix.h"

namespace gradwire {
namespace {

bool HasRoom(int fd) {
  pollfd wait = {fd, POLLOUT, 0};
  return RetryOnSignal([&] { return poll(&wait, 1, 0); }) != 0;
}

}  // namespace

void Outlet::Add(std::string_view text) {
  if (failed_) return;
  kept_ += text;
  Write();
}

void Outlet::Write() {
  // Not O_NONBLOCK, which whoever shares this output would have too: a pipe that poll calls
  // writable takes PIPE_BUF bytes at once.
  while (written_ < kept_.size() && HasRoom(fd_)) {
    const std::string_view piece = std::string_view(kept_).substr(written_, PIPE_BUF);
    const ssize_t n = RetryOnSignal([&] { return write(fd_, piece.data(), piece.size()); });
    if (n >= 0) {
      written_ += static_cast<size_t>(n);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else {
      failed_ = true;
      error_ = errno;
      written_ = kept_.size();
    }
  }
  if (written_ < kept_.size()) return;
  kept_.clear();
  written_ = 0;
}

}  // namespace gradwire
