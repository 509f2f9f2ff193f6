#include "transports/control/socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/forks.h"

namespace gradwire {

void CloseConnection(int epoll, int how, UniqueFd* fd) {
  if (!fd->valid()) return;
  (void)epoll_ctl(epoll, EPOLL_CTL_DEL, fd->get(), nullptr);
  (void)shutdown(fd->get(), how);
  fd->reset();
}

Status PrepareStream(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
      fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
    return ErrnoStatus("fcntl on a control socket", errno);
  }
  KeepFromChildren(fd);
  const int on = 1;
  // Only latency is lost where this fails (a socket pair in a test is not TCP).
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return {};
}

ReadOutcome ReadSome(int fd, Bytes buffer) {
  for (;;) {
    const ssize_t n = recv(fd, buffer.data, static_cast<size_t>(buffer.size), MSG_DONTWAIT);
    if (n > 0) return {.kind = ReadOutcome::Kind::kData, .data = buffer.Sub(0, n)};
    if (n == 0) return {.kind = ReadOutcome::Kind::kClosed};
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
    return {.kind = ReadOutcome::Kind::kFailed, .error = errno};
  }
}

int WriteSome(int fd, std::string* text, size_t* offset) {
  while (*offset < text->size()) {
    const ssize_t n =
        send(fd, text->data() + *offset, text->size() - *offset, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n >= 0) {
      *offset += static_cast<size_t>(n);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return 0;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  text->clear();
  *offset = 0;
  return 0;
}

}  // namespace gradwire
