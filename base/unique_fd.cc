#include "base/unique_fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/forks.h"

namespace gradwire {

void UniqueFd::reset(int fd) {
  if (fd_ >= 0) {
    StopKeepingFromChildren(fd_);
    close(fd_);
  }
  fd_ = fd;
}

Status Pipe::Open() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus("cannot open a pipe", errno);
  read_end.reset(ends[0]);
  write_end.reset(ends[1]);
  return Status::Ok();
}

}  // namespace gradwire
