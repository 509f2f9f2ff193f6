#include "transports/tcp/tcp_transport.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/forks.h"
#include "base/wake_fd.h"
#include "transports/bootstrap/address.h"
#include "transports/connect_bound.h"
#include "transports/control/socket.h"
#include "transports/tcp/tcp_connection.h"
#include "transports/tcp/tcp_door.h"
#include "transports/tcp/tcp_inbox.h"
#include "transports/tcp/tcp_outbox.h"
#include "transports/tcp/tcp_wire.h"

namespace gradwire {
namespace {

// A frame fits one packet as the kernel hands it to a network card that cuts it up (45 segments of
// 1448 bytes). With 64 KiB each frame leaves a small packet behind: 64 MiB over 10 Gbit/s took a
// fifth longer.
constexpr int32_t kFragmentBytes = 63 << 10;
constexpr int32_t kLargestFragmentBytes = 1 << 20;
constexpr int kEventsPerProgress = 64;

// A door under siege closes whom it has not heard yet, but nobody who is new. So a greeting goes
// out soon or not at all: later it might cross the close, and be lost with the frames behind it.
constexpr int64_t kGreetWithinMs = TcpDoor::kYouthNs / kNsPerMs / 2;
// More often it is no siege.
constexpr int kMostCalls = 8;

// Short against the bound of a call.
constexpr int64_t kGreetingWaitNs = 100 * kNsPerMs;

// Whose event it is: a rank and one of its connections.
enum class Way : uint32_t { kIn, kOut, kDoor };
constexpr uint64_t Mark(Way way, int rank = 0) {
  return uint64_t{static_cast<uint32_t>(way)} << 32 | static_cast<uint32_t>(rank);
}

Status CheckPeer(const TcpAddress& theirs, int rank, int32_t fragment_bytes) {
  if (theirs.rank != rank) {
    return Status(gwInvalidArgument,
                  fmt::format("tcp: the address of rank {} stands where rank {}'s should",
                              theirs.rank, rank));
  }
  if (theirs.fragment_bytes == fragment_bytes) return Status::Ok();
  return Status(gwTransportUnavailable,
                ErrorDetail{.message = fmt::format("tcp: rank {} is set up differently", rank),
                            .hint = "Give all ranks the same fragment size",
                            .peer = rank,
                            .field = "fragment bytes",
                            .expected = fmt::format("{} (here)", fragment_bytes),
                            .actual = fmt::format("{} (rank {})", theirs.fragment_bytes, rank)});
}

// What is between this rank and another.
struct TcpPeer {
  int rank = -1;
  SocketAddress address;
  TcpToken token = {};  // of its listener
  UniqueFd in, out;
  TcpInbox inbox;
  TcpOutbox outbox;
  int calls = 0;             // how often `out` was made
  int64_t called_ns = 0;     // when it was made last
  bool writable = false;     // `out` may take more: neither in the making nor full
  bool unreachable = false;  // `out` has failed; what comes in is still delivered
  bool lost = false;
  Status cause;  // once one of these is set
};

class TcpTransport final : public Transport {
 public:
  TcpTransport(const TransportOptions& options, int32_t fragment_bytes, const Clock& clock)
      : clock_(clock),
        rank_(options.rank),
        death_timeout_ns_(options.death_timeout_ns),
        connect_bound_ns_(ConnectBoundNs(options.death_timeout_ns)),
        door_(clock, options.world_size),
        peers_(options.world_size) {
    caps_ = {.max_fragment_bytes = fragment_bytes,
             .fragments_in_flight = TcpOutbox::kMostFrames,
             .detects_peer_death = true,
             .accepted_is_visible = true};
    for (int rank = 0; rank < options.world_size; ++rank) peers_[rank].rank = rank;
  }

  // What has been sent goes out before anybody can hear that this end is gone.
  ~TcpTransport() override {
    for (TcpPeer& peer : peers_) CloseConnection(epoll_.get(), SHUT_WR, &peer.out);
  }

  Status Start(const SocketAddress& address) {
    GW_RETURN_IF_ERROR(door_.Open(address));
    epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
    if (!epoll_.valid()) return ErrnoStatus("epoll_create1", errno);
    GW_RETURN_IF_ERROR(wake_.Open());
    return Watched(Watch(door_.fd(), EPOLLIN, Mark(Way::kDoor)));
  }

  const TransportCaps& caps() const override { return caps_; }

  std::string address() const override {
    return EncodeTcpAddress({.rank = rank_,
                             .fragment_bytes = caps_.max_fragment_bytes,
                             .token = door_.token(),
                             .host_port = door_.address().ToString()});
  }

  Status Connect(std::span<const std::string> addresses) override;
  SendOutcome TrySend(int peer, const FrameHeader& header, ConstBytes fragment,
                      SendToken token) override;
  int Progress(Sink* sink) override;
  Status Wait(int64_t timeout_ns) override;
  void Wake() override { wake_.Wake(); }
  int64_t framing_bytes() const override { return framing_bytes_; }
  void Cancel(uint32_t op_seq) override {
    for (TcpPeer& peer : peers_) peer.outbox.Cancel(op_seq, &sent_);
  }

 private:
  // 0, or errno.
  int Watch(int fd, uint32_t events, uint64_t mark);
  static Status Watched(int error) {
    return error == 0 ? Status::Ok() : ErrnoStatus("epoll_ctl", error);
  }
  void Open(TcpPeer* peer);
  void Call(TcpPeer* peer);
  bool CallAgain(TcpPeer* peer);
  void CheckCalls();
  void Flush(TcpPeer* peer);
  void OnEnd(TcpPeer* peer, int error);
  void Fail(TcpPeer* peer, int error);
  void Lose(TcpPeer* peer, const std::string& why, gwResult_t code = gwPeerLost);
  void Admit();
  void OnOut(TcpPeer* peer, uint32_t events);
  void CheckDoor();
  int OnIn(TcpPeer* peer, Sink* sink);
  int Deliver(TcpPeer* peer, Sink* sink);
  void Settle();
  int Report(Sink* sink);

  const Clock& clock_;
  const int rank_;
  const int64_t death_timeout_ns_;
  const int64_t connect_bound_ns_;  // 0: none
  TransportCaps caps_;
  UniqueFd epoll_;
  WakeFd wake_;
  TcpDoor door_;
  std::vector<TcpPeer> peers_;
  std::vector<TcpGuest> guests_;    // empty between calls
  std::vector<TcpPeer*> greeting_;  // who was called and may not have answered; those with a bound
  int64_t framing_bytes_ = 0;
  // For the next Report.
  std::vector<SendToken> sent_;
  std::vector<TcpPeer*> unreachable_, lost_;
};

int TcpTransport::Watch(int fd, uint32_t events, uint64_t mark) {
  epoll_event event{.events = events, .data = {.u64 = mark}};
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : errno;
}

Status TcpTransport::Connect(std::span<const std::string> addresses) {
  if (addresses.size() != peers_.size()) {
    return Status(gwInvalidArgument,
                  fmt::format("tcp: {} addresses for {} ranks", addresses.size(), peers_.size()));
  }
  for (TcpPeer& peer : peers_) {
    StatusOr<TcpAddress> theirs = DecodeTcpAddress(addresses[peer.rank]);
    if (!theirs.ok()) return Status(theirs.status()).WithPeer(peer.rank);
    GW_RETURN_IF_ERROR(CheckPeer(*theirs, peer.rank, caps_.max_fragment_bytes));
    StatusOr<HostPort> host_port = ParseHostPort(theirs->host_port);
    if (!host_port.ok()) return Status(host_port.status()).WithPeer(peer.rank);
    StatusOr<SocketAddress> address = ResolveHost(*host_port);
    if (!address.ok()) return Status(address.status()).WithPeer(peer.rank);
    peer.address = *address;
    peer.token = theirs->token;
  }
  return Status::Ok();
}

SendOutcome TcpTransport::TrySend(int rank, const FrameHeader& header, ConstBytes fragment,
                                  SendToken token) {
  TcpPeer& peer = peers_[rank];
  assert(rank != rank_ && fragment.size <= caps_.max_fragment_bytes);
  if (!peer.out.valid() && !peer.unreachable) Open(&peer);
  if (peer.unreachable) return SendOutcome::kLost;
  if (peer.outbox.full()) return SendOutcome::kFull;
  framing_bytes_ += peer.outbox.Push(header, fragment, token);
  Flush(&peer);
  return SendOutcome::kAccepted;
}

void TcpTransport::Open(TcpPeer* peer) {
  peer->outbox.Greet({.src = static_cast<uint16_t>(rank_), .token = peer->token});
  framing_bytes_ += sizeof(TcpHello);
  if (connect_bound_ns_ > 0) greeting_.push_back(peer);
  Call(peer);
}

void TcpTransport::Call(TcpPeer* peer) {
  ++peer->calls;
  peer->called_ns = clock_.NowNs();
  peer->out.reset(socket(peer->address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!peer->out.valid()) return Fail(peer, errno);
  KeepFromChildren(peer->out.get());
  PrepareConnection(peer->out.get(), death_timeout_ns_);
  const int result = connect(peer->out.get(), peer->address.get(), peer->address.bytes());
  if (result != 0 && errno != EINPROGRESS) return Fail(peer, errno);
  // By edges: a queue that fills and empties needs no calls besides.
  const uint32_t events = EPOLLOUT | EPOLLIN | EPOLLRDHUP | EPOLLET;
  const int error = Watch(peer->out.get(), events, Mark(Way::kOut, peer->rank));
  if (error != 0) Fail(peer, error);
}

// Whether that makes sense: the peer has heard nothing yet. At once, for who is new is heard.
bool TcpTransport::CallAgain(TcpPeer* peer) {
  if (!peer->outbox.greets() || peer->calls >= kMostCalls) return false;
  CloseConnection(epoll_.get(), SHUT_RDWR, &peer->out);
  peer->writable = false;
  peer->outbox.GreetAgain();
  Call(peer);
  return true;
}

// The kernel would go on for minutes where a wall drops what is sent. Behind all that has come: an
// answer may have, while this rank stood still.
void TcpTransport::CheckCalls() {
  if (greeting_.empty()) return;
  const int64_t latest_ns = clock_.NowNs() - connect_bound_ns_;
  for (TcpPeer* peer : greeting_) {
    const bool is_late = peer->outbox.greets() && peer->called_ns < latest_ns;
    if (is_late && IsCalling(peer->out.get())) Fail(peer, ETIMEDOUT);
  }
  std::erase_if(greeting_, [](const TcpPeer* peer) { return !peer->outbox.greets(); });
}

void TcpTransport::Flush(TcpPeer* peer) {
  std::array<iovec, TcpOutbox::kMostPieces> pieces;
  while (peer->writable && !peer->outbox.empty()) {
    const std::span<iovec> next = peer->outbox.Gather(&pieces);
    const msghdr message = {.msg_iov = next.data(), .msg_iovlen = next.size()};
    const ssize_t written = sendmsg(peer->out.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (written >= 0) {
      peer->outbox.Advance(written, &sent_);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      peer->writable = false;  // until the next edge
    } else if (errno != EINTR) {
      return OnEnd(peer, errno);
    }
  }
}

// Of `out`. Another error tells that nobody listens there.
void TcpTransport::OnEnd(TcpPeer* peer, int error) {
  const bool was_closed = error == 0 || error == ECONNRESET || error == EPIPE;
  if (!was_closed || !CallAgain(peer)) Fail(peer, error);
}

// Nothing goes to the peer any more. What it has sent before may still be on its way: its
// connection is closed in the other direction only, which tells it to end it if it is still there.
// Behind a wall it is there, as far as anybody can tell: it is to hear the reason from the control
// plane, and not from here of an end, for which it would blame this rank.
void TcpTransport::Fail(TcpPeer* peer, int error) {
  if (std::exchange(peer->unreachable, true)) return;
  const std::string at = peer->address.ToString();
  peer->cause = Status(CodeOfErrno(error), fmt::format("tcp: the connection to rank {} at {}: {}",
                                                       peer->rank, at, WhyEnded(error)))
                    .WithPeer(peer->rank);
  const bool is_walled = peer->outbox.greets() && IsOfTheNetwork(error);
  if (is_walled) {
    peer->cause = std::move(peer->cause)
                      .WithHint(fmt::format("Rank {} must reach {}: open TCP between the machines, "
                                            "or give rank {} another address by "
                                            "GRADWIRE_INTERFACE",
                                            rank_, at, peer->rank));
  }
  CloseConnection(epoll_.get(), SHUT_RDWR, &peer->out);
  peer->outbox.Clear(&sent_);
  peer->lost = is_walled;
  (is_walled ? lost_ : unreachable_).push_back(peer);
  if (!peer->in.valid()) return;
  if (is_walled) {
    (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer->in.get(), nullptr);
  } else {
    (void)shutdown(peer->in.get(), SHUT_WR);
  }
}

void TcpTransport::Lose(TcpPeer* peer, const std::string& why, gwResult_t code) {
  if (!std::exchange(peer->unreachable, true)) {
    peer->cause = Status(code, fmt::format("tcp: the connection from rank {}: {}", peer->rank, why))
                      .WithPeer(peer->rank);
  }
  peer->lost = true;
  CloseConnection(epoll_.get(), SHUT_RDWR, &peer->in);
  CloseConnection(epoll_.get(), SHUT_RDWR, &peer->out);
  peer->outbox.Clear(&sent_);
  lost_.push_back(peer);
}

int TcpTransport::Progress(Sink* sink) {
  epoll_event events[kEventsPerProgress];
  const int count = epoll_wait(epoll_.get(), events, kEventsPerProgress, 0);
  int fragments = 0;
  for (int i = 0; i < count; ++i) {
    TcpPeer& peer = peers_[static_cast<uint32_t>(events[i].data.u64)];
    switch (static_cast<Way>(events[i].data.u64 >> 32)) {
      case Way::kDoor: Admit(); break;
      case Way::kIn: fragments += OnIn(&peer, sink); break;
      case Way::kOut: OnOut(&peer, events[i].events); break;
    }
  }
  if (door_.overdue()) Admit();
  CheckDoor();
  CheckCalls();
  Settle();
  return fragments + Report(sink);
}

void TcpTransport::Admit() {
  door_.Visit(&guests_);
  for (TcpGuest& guest : guests_) {
    TcpPeer& peer = peers_[guest.src];
    const bool expected = guest.src != rank_ && !peer.in.valid() && !peer.lost;
    if (!expected) continue;
    peer.in = std::move(guest.fd);
    PrepareConnection(peer.in.get(), death_timeout_ns_);
    if (peer.unreachable) (void)shutdown(peer.in.get(), SHUT_WR);
    Status opened = peer.inbox.Open(caps_.max_fragment_bytes);
    if (opened.ok()) opened = Watched(Watch(peer.in.get(), EPOLLIN, Mark(Way::kIn, peer.rank)));
    if (!opened.ok()) Lose(&peer, opened.detail().message, opened.code());
  }
  guests_.clear();
}

// Whoever knocks at a door that does not open would wait and be waited for without end. Any of
// those who have not come may be the one.
void TcpTransport::CheckDoor() {
  if (death_timeout_ns_ <= 0 || door_.short_for_ns() <= death_timeout_ns_) return;
  for (TcpPeer& peer : peers_) {
    const bool is_outside = peer.rank != rank_ && !peer.in.valid() && !peer.lost;
    if (is_outside) Lose(&peer, "no descriptor or memory is left for it", gwSystemError);
  }
}

void TcpTransport::OnOut(TcpPeer* peer, uint32_t events) {
  if (!peer->out.valid()) return;  // since the events were taken
  if ((events & ~static_cast<uint32_t>(EPOLLOUT)) != 0) {
    // Nobody speaks on this connection but us: it has ended.
    int error = 0;
    socklen_t bytes = sizeof error;
    (void)getsockopt(peer->out.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
    return OnEnd(peer, error);
  }
  const bool greets = peer->outbox.greets();
  if (greets && StandingMs(peer->out.get()) > kGreetWithinMs && CallAgain(peer)) return;
  peer->writable = true;
  Flush(peer);
}

int TcpTransport::OnIn(TcpPeer* peer, Sink* sink) {
  if (!peer->in.valid() || peer->lost) return 0;  // since the events were taken
  const ReadOutcome got = ReadSome(peer->in.get(), peer->inbox.Space());
  switch (got.kind) {
    case ReadOutcome::Kind::kNothingYet: break;
    case ReadOutcome::Kind::kData: peer->inbox.Added(got.data.size); return Deliver(peer, sink);
    case ReadOutcome::Kind::kFailed: Lose(peer, WhyEnded(got.error)); break;
    case ReadOutcome::Kind::kClosed:
      Lose(peer, WhyEnded(0) + (peer->inbox.partial() ? " in the middle of a frame" : ""));
      break;
  }
  return 0;
}

int TcpTransport::Deliver(TcpPeer* peer, Sink* sink) {
  for (int fragments = 0;; ++fragments) {
    FrameHeader header;
    ConstBytes payload;
    switch (peer->inbox.Take(&header, &payload)) {
      case TcpInbox::Next::kFrame: sink->OnFragment(peer->rank, header, payload); break;
      case TcpInbox::Next::kNothing: return fragments;
      case TcpInbox::Next::kDamaged:
        Lose(peer, "what came is no frame of this version, or was damaged on the way");
        return fragments;
    }
  }
}

// A peer that cannot be reached is lost once all that it sent is here: where it has connected, once
// its connection ends. It may have connected just now.
void TcpTransport::Settle() {
  if (unreachable_.empty()) return;
  Admit();
  for (TcpPeer* peer : unreachable_) {
    if (!peer->in.valid() && !peer->lost) Lose(peer, {});
  }
  unreachable_.clear();
}

int TcpTransport::Report(Sink* sink) {
  const int reports = static_cast<int>(sent_.size() + lost_.size());
  for (const SendToken token : sent_) sink->OnSent(token);
  sent_.clear();
  for (const TcpPeer* peer : lost_) sink->OnPeerLost(peer->rank, peer->cause);
  lost_.clear();
  return reports;
}

Status TcpTransport::Wait(int64_t timeout_ns) {
  if (!sent_.empty() || !unreachable_.empty() || !lost_.empty()) return Status::Ok();
  if (!greeting_.empty()) timeout_ns = std::min(timeout_ns, kGreetingWaitNs);
  return wake_.Wait(epoll_.get(), timeout_ns);
}

Status CheckOptions(const TransportOptions& options) {
  const bool in_range = options.world_size >= 1 && options.world_size <= 65535 &&
                        options.rank >= 0 && options.rank < options.world_size;
  if (!in_range) {
    return Status(gwInvalidArgument,
                  fmt::format("tcp: rank {} of {}", options.rank, options.world_size));
  }
  const int32_t bytes = options.fragment_bytes;
  if (bytes >= 0 && bytes <= kLargestFragmentBytes && bytes % 64 == 0) return Status::Ok();
  return Status(gwInvalidArgument, fmt::format("tcp: fragments of {} bytes", bytes),
                fmt::format("Take a multiple of 64, at most {}", kLargestFragmentBytes))
      .WithSetting("fragment_bytes");
}

}  // namespace

StatusOr<std::unique_ptr<Transport>> MakeTcpTransport(const TransportOptions& options) {
  return MakeTcpTransport(options, SteadyClock());
}

StatusOr<std::unique_ptr<Transport>> MakeTcpTransport(const TransportOptions& options,
                                                      const Clock& clock) {
  GW_RETURN_IF_ERROR(CheckOptions(options));
  const StatusOr<SocketAddress> address = OwnAddress(options.interface, options.root, 0);
  const int32_t bytes = options.fragment_bytes > 0 ? options.fragment_bytes : kFragmentBytes;
  auto transport = std::make_unique<TcpTransport>(options, bytes, clock);
  const Status started = address.ok() ? transport->Start(*address) : address.status();
  if (!started.ok()) {
    return Status(gwTransportUnavailable, "tcp: " + started.detail().message, started.detail().hint)
        .WithSetting(started.detail().setting);
  }
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace gradwire
