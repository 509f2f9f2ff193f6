#include "transports/tcp/tcp_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"

namespace gradwire {
namespace {

// A host counts as silent only when it answers none of so many questions: any packet may get lost,
// and a job of many ranks asks thousands of times a minute.
constexpr int kKeepaliveProbes = 5;
// Linux takes no longer times, and would ask after two hours, as it does by default.
constexpr int64_t kMostKeepaliveS = 32767;

tcp_info InfoOf(int fd) {
  tcp_info info = {};
  socklen_t bytes = sizeof info;
  (void)getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes);
  return info;
}

}  // namespace

void PrepareConnection(int fd, int64_t death_timeout_ns) {
  const auto set = [fd](int level, int name, int value) {
    (void)setsockopt(fd, level, name, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  if (death_timeout_ns <= 0) return;
  // A connection on which nothing is under way is asked, by whole seconds, and has as long again to
  // answer, or five seconds: fewer questions for short timeouts would make them fragile, and this
  // only stands behind the heartbeats. Not TCP_USER_TIMEOUT: it would also end a connection whose
  // receiver is alive and busy, with what is on the way.
  const auto idle_s =
      static_cast<int>(std::clamp<int64_t>(death_timeout_ns / kNsPerSecond, 1, kMostKeepaliveS));
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, idle_s);
  set(IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, idle_s / kKeepaliveProbes));
  set(IPPROTO_TCP, TCP_KEEPCNT, kKeepaliveProbes);
}

std::string WhyEnded(int error) { return error == 0 ? "closed by the peer" : std::strerror(error); }

int64_t StandingMs(int fd) { return InfoOf(fd).tcpi_last_data_recv; }

bool IsCalling(int fd) { return InfoOf(fd).tcpi_state == TCP_SYN_SENT; }

gwResult_t CodeOfErrno(int error) {
  const bool is_ours = error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS ||
                       error == ENOSPC || error == EADDRNOTAVAIL;  // no port is left to call from
  return is_ours ? gwSystemError : gwPeerLost;
}

bool IsOfTheNetwork(int error) {
  return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
}

}  // namespace gradwire
