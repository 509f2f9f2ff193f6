#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "base/forks.h"
#include "transports/bootstrap/bootstrap_internal.h"
#include "transports/bootstrap/rendezvous_host.h"
#include "transports/control/socket.h"

namespace gradwire {
namespace {

constexpr int kAcceptsPerTurn = 64;
constexpr int kReadBytes = 64 * 1024;
constexpr int64_t kFlushNs = kNsPerSecond;

// The sockets of rank 0 during the start.
class HostShell : public HostWires {
 public:
  HostShell(const BootstrapOptions& options, RendezvousHostOptions host)
      : options_(options), host_(std::move(host), this), buffer_(kReadBytes) {}

  // Until the start has ended and its last words are out.
  void Run() {
    while (!host_.done()) {
      if (const Status vain = vain_.Check(); !vain.ok()) {
        host_.Fail(vain);
        if (vain.code() == gwRevoked) break;
      }
      Turn({host_.NextNs()});
    }
    const Deadline flushed = Deadline::After(*options_.clock, kFlushNs);
    while (HasOutput() && !flushed.Expired(*options_.clock)) Turn(flushed);
  }

  StatusOr<BootstrapResult> TakeResult() {
    if (!host_.status().ok()) return host_.status();
    BootstrapResult result{.roster = host_.roster(), .strangers_rejected = host_.rejected()};
    for (int r = 1; r < options_.world_size; ++r) {
      Socket& socket = sockets_.at(host_.conn_of(r));
      result.links.push_back({.peer = r,
                              .fd = std::move(socket.fd),
                              .reader = host_.reader_of(r),
                              .unread = host_.unread_of(r)});
    }
    return result;
  }

  void Send(int conn, std::string bytes) override {
    const auto it = sockets_.find(conn);
    if (it == sockets_.end()) return;
    it->second.out += bytes;
    Flush(&it->second);
  }

  void Close(int conn) override {
    const auto it = sockets_.find(conn);
    if (it != sockets_.end()) it->second.closing = true;
  }

 private:
  struct Socket {
    UniqueFd fd;
    std::string out;
    size_t out_offset = 0;
    bool closing = false;
  };

  // A connection that has lost a part of a message is over, also where the error would pass. That
  // shows when it is read.
  static void Flush(Socket* s) {
    if (WriteSome(s->fd.get(), &s->out, &s->out_offset) == 0) return;
    (void)shutdown(s->fd.get(), SHUT_RDWR);
    s->out.clear();
    s->out_offset = 0;
  }

  bool HasOutput() const {
    return std::any_of(sockets_.begin(), sockets_.end(),
                       [](const auto& entry) { return !entry.second.out.empty(); });
  }

  // One poll and what follows from it.
  void Turn(Deadline until) {
    const Deadline vain_check = Deadline::After(*options_.clock, kVainCheckNs);
    std::vector<pollfd> polled;
    std::vector<int> conns;
    for (const auto& [conn, socket] : sockets_) {
      const int wanted = (socket.closing ? 0 : POLLIN) | (socket.out.empty() ? 0 : POLLOUT);
      polled.push_back({socket.fd.get(), static_cast<short>(wanted), 0});
      conns.push_back(conn);
    }
    const Deadline opens = {host_.ClosedUntilNs()};
    const bool is_open = opens.Expired(*options_.clock);
    if (!host_.done() && !accepts_paused_ && is_open)
      polled.push_back({options_.listener.get(), POLLIN, 0});
    if (!is_open) until = Earlier(until, opens);
    (void)poll(polled.data(), polled.size(),
               Earlier(until, vain_check).PollTimeoutMs(*options_.clock));
    accepts_paused_ = false;
    for (size_t i = 0; i < conns.size(); ++i) {
      if (polled[i].revents != 0) Serve(conns[i]);
    }
    if (polled.size() > conns.size() && polled.back().revents != 0) AcceptSome();
    host_.Tick(options_.clock->NowNs());
    Sweep();
  }

  void Serve(int conn) {
    Socket& socket = sockets_.at(conn);
    if (!socket.out.empty()) Flush(&socket);
    if (socket.closing) return;
    const ReadOutcome got = ReadSome(socket.fd.get(), {buffer_.data(), kReadBytes});
    switch (got.kind) {
      case ReadOutcome::Kind::kData: return host_.OnBytes(conn, got.data, options_.clock->NowNs());
      case ReadOutcome::Kind::kNothingYet: return;
      case ReadOutcome::Kind::kClosed:
      case ReadOutcome::Kind::kFailed:
        // Who dies after its last word is lost by the communicator, which takes the socket over.
        if (host_.done()) return;
        socket.closing = true;
        return host_.OnClosed(conn);
    }
  }

  void AcceptSome() {
    for (int i = 0; i < kAcceptsPerTurn && !host_.done(); ++i) {
      if (!Deadline{host_.ClosedUntilNs()}.Expired(*options_.clock)) return;
      sockaddr_storage from = {};
      socklen_t bytes = sizeof(from);
      auto* address = reinterpret_cast<sockaddr*>(&from);
      UniqueFd fd(accept4(options_.listener.get(), address, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!fd.valid()) {
        // Out of descriptors: the call stays in the backlog; do not spin on it.
        accepts_paused_ = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
        if (accepts_paused_) host_.NoteNoRoom(std::strerror(errno));
        return;
      }
      if (!PrepareStream(fd.get()).ok()) continue;
      const int conn = next_conn_++;
      sockets_[conn].fd = std::move(fd);
      const SocketAddress peer(address, ntohs(reinterpret_cast<sockaddr_in*>(address)->sin_port));
      host_.OnConnect(conn, peer.ToString(), options_.clock->NowNs());
    }
  }

  void Sweep() {
    for (auto it = sockets_.begin(); it != sockets_.end();) {
      const auto here = it++;
      Socket& socket = here->second;
      if (!socket.closing || !socket.out.empty()) continue;
      (void)shutdown(socket.fd.get(), SHUT_WR);
      // Unread bytes would turn the close into a reset.
      (void)ReadSome(socket.fd.get(), {buffer_.data(), kReadBytes});
      sockets_.erase(here);
    }
  }

  const BootstrapOptions& options_;
  VainWait vain_ = MakeVainWait(options_);
  std::map<int, Socket> sockets_;
  int next_conn_ = 0;
  bool accepts_paused_ = false;
  RendezvousHost host_;
  std::vector<std::byte> buffer_;
};

}  // namespace

StatusOr<BootstrapResult> RunHost(BootstrapOptions options) {
  if (!options.listener.valid()) {
    const StatusOr<SocketAddress> root = ResolveRoot(options.root);
    if (!root.ok()) return root.status();
    GW_RETURN_IF_ERROR(CheckSecret(options, *root));
    StatusOr<UniqueFd> listener = Listen(*root);
    if (!listener.ok()) return Status(listener.status()).WithRank(0);
    options.listener = std::move(*listener);
  } else {
    const StatusOr<SocketAddress> root = BoundAddress(options.listener.get());
    if (!root.ok()) return root.status();
    GW_RETURN_IF_ERROR(CheckSecret(options, *root));
  }
  KeepFromChildren(options.listener.get());
  HostShell shell(options, {.me = {.rank = 0,
                                   .world_size = options.world_size,
                                   .job = options.job,
                                   .secret = options.secret,
                                   .library_version = options.library_version},
                            .blob = options.blob,
                            .choose_settings = options.choose_settings,
                            .use_roster = options.use_roster,
                            .entropy = options.entropy,
                            .start_ns = options.clock->NowNs(),
                            .timeout_ns = options.timeout_ns,
                            .hello_timeout_ns = options.hello_timeout_ns,
                            .liveness = options.liveness});
  shell.Run();
  return shell.TakeResult();
}

}  // namespace gradwire
