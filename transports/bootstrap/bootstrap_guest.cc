#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include "transports/bootstrap/bootstrap_internal.h"
#include "transports/bootstrap/rendezvous_guest.h"
#include "transports/control/socket.h"

namespace gradwire {
namespace {

constexpr int64_t kFirstPauseNs = 10 * kNsPerMs;
constexpr int64_t kLongestPauseNs = 500 * kNsPerMs;
constexpr int kReadBytes = 64 * 1024;

// The calls of one rank to rank 0, until one of them succeeds.
class GuestShell {
 public:
  explicit GuestShell(const BootstrapOptions& options)
      : options_(options),
        root_text_(fmt::format("{}:{}", options.root.host, options.root.port)),
        deadline_(Deadline::After(*options.clock, options.timeout_ns)),
        buffer_(kReadBytes) {}

  StatusOr<BootstrapResult> Run() {
    for (int64_t pause_ns = kFirstPauseNs;; pause_ns = std::min(2 * pause_ns, kLongestPauseNs)) {
      StatusOr<BootstrapResult> result = Call();
      if (result.ok() || !again_) return result;
      last_failure_ = result.status().detail().message;
      GW_RETURN_IF_ERROR(Pause(pause_ns));
    }
  }

 private:
  // One attempt. On failure again_ says whether another makes sense.
  StatusOr<BootstrapResult> Call() {
    again_ = true;
    const StatusOr<SocketAddress> root = ResolveRoot(options_.root);
    if (!root.ok()) return root.status();
    if (Status secret = CheckSecret(options_, *root); !secret.ok()) {
      again_ = false;
      return secret;
    }
    StatusOr<UniqueFd> fd = Connect(*root);
    again_ = !fd.ok() && (!options_.root_listens || fd.status().code() != gwPeerLost);
    if (!fd.ok()) return again_ ? fd.status() : Gone();
    return Converse(std::move(*fd));
  }

  StatusOr<UniqueFd> Connect(const SocketAddress& root) {
    UniqueFd fd(socket(root.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd.valid()) return ErrnoStatus("socket", errno);
    GW_RETURN_IF_ERROR(PrepareStream(fd.get()));
    int error = 0;
    if (connect(fd.get(), root.get(), root.bytes()) != 0) error = errno;
    if (error == EINPROGRESS) {
      error = ETIMEDOUT;
      if (WaitFor(fd.get(), POLLOUT, deadline_)) {
        socklen_t bytes = sizeof(error);
        (void)getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
      }
    }
    if (error == ECONNREFUSED || (error == 0 && IsSelf(fd.get(), root)))
      return Status(gwPeerLost, "nobody listens");
    if (error != 0) return Status(gwSystemError, std::strerror(error));
    return fd;
  }

  // While nobody listens, a call to a port of this host may be given that very port as its own and
  // reach itself.
  static bool IsSelf(int fd, const SocketAddress& root) {
    const StatusOr<SocketAddress> own = BoundAddress(fd);
    return own.ok() && own->ToString() == root.ToString();
  }

  // True when `fd` is ready; false at the deadline or where the wait is in vain. What is there
  // counts more than either.
  bool WaitFor(int fd, short events, Deadline until) {
    for (;;) {
      const Deadline check = Deadline::After(*options_.clock, kVainCheckNs);
      pollfd polled{fd, events, 0};
      if (poll(&polled, 1, Earlier(until, check).PollTimeoutMs(*options_.clock)) > 0) return true;
      if (until.Expired(*options_.clock) || !vain_.Check().ok()) return false;
    }
  }

  Status Pause(int64_t ns) {
    const Deadline until = Earlier(Deadline::After(*options_.clock, ns), deadline_);
    (void)WaitFor(-1, 0, until);
    GW_RETURN_IF_ERROR(vain_.Check());
    if (!deadline_.Expired(*options_.clock)) return {};
    return Late(fmt::format("could not be reached: {}", last_failure_));
  }

  Status Gone() const {
    return Status(gwPeerLost,
                  ErrorDetail{.message = fmt::format("rank 0 no longer listens at {}", root_text_),
                              .hint = "Look at its error. A unique id is good for one start, of as "
                                      "many ranks as rank 0 was told",
                              .rank = options_.rank,
                              .peer = 0});
  }

  Status Late(const std::string& what) const {
    // Of this call, whatever was its bound. In tenths.
    const int64_t waited_ns = options_.clock->NowNs() - (deadline_.at_ns - options_.timeout_ns);
    const double waited_s = std::round(static_cast<double>(waited_ns) / 1e8) / 10;
    return Status(gwTimeout, {.message = fmt::format("rank 0 at {} {} (after {} s)", root_text_,
                                                     what, waited_s),
                              .hint = "Is rank 0 running, and is this its address? Else set "
                                      "GRADWIRE_INTERFACE there, and let TCP through to it",
                              .rank = options_.rank,
                              .peer = 0});
  }

  // As long as rank 0 itself waits, so that its list of missing ranks arrives; at most twice our
  // own time.
  Deadline Patience(const RendezvousGuest& guest) const {
    if (guest.host_deadline_ns() == 0) return deadline_;
    const int64_t host_ns = guest.host_deadline_ns() + kNsPerSecond;
    return {std::min(std::max(host_ns, deadline_.at_ns), deadline_.at_ns + options_.timeout_ns)};
  }

  StatusOr<BootstrapResult> Converse(UniqueFd fd) {
    RendezvousGuest guest({.me = {.rank = options_.rank,
                                  .world_size = options_.world_size,
                                  .job = options_.job,
                                  .secret = options_.secret,
                                  .library_version = options_.library_version},
                           .blob = options_.blob,
                           .use_roster = options_.use_roster,
                           .entropy = options_.entropy,
                           .host = root_text_,
                           .liveness = options_.liveness});
    std::string out;
    size_t offset = 0;
    while (guest.outcome() == RendezvousGuest::Outcome::kPending) {
      out += guest.TakeOutput();
      (void)WriteSome(fd.get(), &out, &offset);
      const short events = static_cast<short>(POLLIN | (out.empty() ? 0 : POLLOUT));
      const Deadline patience = Patience(guest);
      if (WaitFor(fd.get(), events, Earlier(patience, {guest.NextNs()}))) {
        Receive(fd.get(), &guest);
      } else if (Status vain = vain_.Check(); !vain.ok()) {
        return vain;
      } else if (patience.Expired(*options_.clock)) {
        return Late(fmt::format("does not answer; awaited {}", guest.Awaited()));
      }
      guest.Tick(options_.clock->NowNs());
    }
    return Conclude(std::move(fd), guest);
  }

  void Receive(int fd, RendezvousGuest* guest) {
    const ReadOutcome got = ReadSome(fd, {buffer_.data(), kReadBytes});
    switch (got.kind) {
      case ReadOutcome::Kind::kData: return guest->OnBytes(got.data, options_.clock->NowNs());
      case ReadOutcome::Kind::kNothingYet: return;
      case ReadOutcome::Kind::kClosed:
      case ReadOutcome::Kind::kFailed: return guest->OnClosed();
    }
  }

  StatusOr<BootstrapResult> Conclude(UniqueFd fd, const RendezvousGuest& guest) {
    if (guest.outcome() == RendezvousGuest::Outcome::kFailed) return guest.status();
    if (guest.outcome() == RendezvousGuest::Outcome::kRetry) {
      again_ = true;
      return Status(gwRemoteError, "it closed the connection before it had proven itself");
    }
    BootstrapResult result{.roster = guest.roster()};
    result.links.push_back(
        {.peer = 0, .fd = std::move(fd), .reader = guest.reader(), .unread = guest.unread()});
    return result;
  }

  const BootstrapOptions& options_;
  VainWait vain_ = MakeVainWait(options_);
  const std::string root_text_;
  const Deadline deadline_;
  std::string last_failure_;
  bool again_ = true;
  std::vector<std::byte> buffer_;
};

}  // namespace

StatusOr<BootstrapResult> RunGuest(const BootstrapOptions& options) {
  return GuestShell(options).Run();
}

}  // namespace gradwire
