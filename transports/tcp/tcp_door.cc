#include "transports/tcp/tcp_door.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include "base/forks.h"
#include "transports/control/socket.h"

namespace gradwire {
namespace {

// Bounds, so that a flood does not hold up what is inside.
constexpr int kEventsPerVisit = 64, kAcceptsPerVisit = 64;

// After the process has run short of what a connection takes.
constexpr int64_t kPauseNs = 100 * kNsPerMs;

bool LacksDescriptor(int error) { return error == EMFILE || error == ENFILE; }

// None where no descriptor is left.
UniqueFd Spare() { return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

}  // namespace

TcpDoor::TcpDoor(const Clock& clock, int world_size)
    : clock_(clock),
      world_size_(world_size),
      turned_away_(clock, 5, kNsPerSecond),
      runs_short_(clock, 1, kNsPerSecond) {}

Status TcpDoor::Open(const SocketAddress& address) {
  if (getrandom(token_.data(), token_.size(), 0) != static_cast<ssize_t>(token_.size())) {
    return ErrnoStatus("random bytes", errno);
  }
  StatusOr<UniqueFd> listener = Listen(address);
  if (!listener.ok()) return listener.status();
  StatusOr<SocketAddress> bound = BoundAddress(listener->get());
  if (!bound.ok()) return bound.status();
  listener_ = std::move(*listener);
  KeepFromChildren(listener_.get());
  address_ = *bound;
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return ErrnoStatus("epoll_create1", errno);
  const int error = Watch(listener_.get());
  spare_ = Spare();
  return error == 0 ? Status::Ok() : ErrnoStatus("epoll_ctl", error);
}

int TcpDoor::Watch(int fd) {
  epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : errno;
}

bool TcpDoor::Outstayed() const {
  return !strangers_.empty() && clock_.NowNs() - strangers_.front().since_ns > kPatienceNs;
}

int64_t TcpDoor::short_for_ns() const {
  return short_since_ns_ ? clock_.NowNs() - *short_since_ns_ : 0;
}

bool TcpDoor::overdue() const {
  return Outstayed() || (listen_again_ns_ > 0 && clock_.NowNs() >= listen_again_ns_);
}

void TcpDoor::Visit(std::vector<TcpGuest>* guests) {
  epoll_event events[kEventsPerVisit];
  const int count = epoll_wait(epoll_.get(), events, std::size(events), 0);
  bool somebody_knocks = false;
  for (int i = 0; i < count; ++i) {
    const int fd = events[i].data.fd;
    somebody_knocks |= fd == listener_.get();
    for (Stranger& stranger : strangers_) {
      if (stranger.fd.get() == fd) Hear(&stranger, guests);
    }
  }
  if (Outstayed()) PushOut(&strangers_.front(), guests);
  std::erase_if(strangers_, [](const Stranger& stranger) { return !stranger.fd.valid(); });
  if (!spare_.valid()) spare_ = Spare();
  if (listen_again_ns_ > 0 && clock_.NowNs() >= listen_again_ns_) {
    listen_again_ns_ = 0;
    if (const int error = Watch(listener_.get()); error != 0) return Refused(error);
    somebody_knocks = true;  // perhaps
  }
  if (somebody_knocks) AcceptAll(guests);
}

void TcpDoor::AcceptAll(std::vector<TcpGuest>* guests) {
  bool has_descriptor = true;
  for (int i = 0; i < kAcceptsPerVisit; ++i) {
    const bool is_full = !has_descriptor || strangers_.size() >= MostStrangers(world_size_);
    const int64_t grown_up_ns = is_full ? strangers_.front().since_ns + kYouthNs : 0;
    if (clock_.NowNs() < grown_up_ns) return RestUntil(grown_up_ns);
    if (!has_descriptor) PushOutOldest(guests);
    UniqueFd fd;
    if (const int refused = Accept(&fd); refused != 0) {
      const bool can_make_room = spare_.valid() || !strangers_.empty();
      if (!LacksDescriptor(refused) || !can_make_room) return Refused(refused);
      has_descriptor = spare_.valid();
      spare_.reset();
      continue;
    }
    has_descriptor = true;
    KeepFromChildren(fd.get());
    Stranger stranger{.fd = std::move(fd), .since_ns = clock_.NowNs()};
    // Often a member's hello is there already. With it there is more, which would be lost if nobody
    // could be watched.
    Hear(&stranger, guests);
    const int error = stranger.fd.valid() ? Watch(stranger.fd.get()) : 0;
    if (error != 0) return Refused(error);
    short_since_ns_.reset();
    if (!stranger.fd.valid()) continue;
    strangers_.push_back(std::move(stranger));
    if (strangers_.size() <= MostStrangers(world_size_)) continue;
    PushOutOldest(guests);
  }
}

// errno; 0: it went well.
int TcpDoor::Accept(UniqueFd* fd) const {
  fd->reset(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd->valid()) return 0;
  const int error = errno;
  if (!LacksDescriptor(error)) return error;
  // The system has not even looked whether anybody is there.
  pollfd knock = {listener_.get(), POLLIN, 0};
  return poll(&knock, 1, 0) == 0 ? EAGAIN : error;
}

void TcpDoor::PushOutOldest(std::vector<TcpGuest>* guests) {
  PushOut(&strangers_.front(), guests);
  strangers_.erase(strangers_.begin());
}

void TcpDoor::RestUntil(int64_t ns) {
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_.get(), nullptr);
  listen_again_ns_ = ns;
}

void TcpDoor::Refused(int error) {
  int64_t left_out = 0;
  // ENOSPC: of epoll, whose watches a user may use up.
  const bool runs_short =
      error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM || error == ENOSPC;
  if (!runs_short) return short_since_ns_.reset();
  if (!short_since_ns_) short_since_ns_ = clock_.NowNs();
  RestUntil(clock_.NowNs() + kPauseNs);
  if (!runs_short_.Allow(&left_out)) return;
  GW_LOG(kWarn, kNet, "tcp: no peer can connect: {}", std::strerror(error));
}

void TcpDoor::Hear(Stranger* stranger, std::vector<TcpGuest>* guests) {
  // No byte more than the hello: the frames behind it belong to whoever gets the connection.
  const Bytes rest = {.data = stranger->hello.data() + stranger->heard_bytes,
                      .size = static_cast<int64_t>(sizeof(TcpHello)) - stranger->heard_bytes};
  const ReadOutcome got = ReadSome(stranger->fd.get(), rest);
  if (got.kind == ReadOutcome::Kind::kNothingYet) return;
  if (got.kind != ReadOutcome::Kind::kData) return TurnAway(stranger);
  stranger->heard_bytes += got.data.size;
  if (got.data.size < rest.size) return;
  const std::optional<int> src =
      ParseTcpHello({stranger->hello.data(), sizeof(TcpHello)}, token_, world_size_);
  if (!src) return TurnAway(stranger);
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, stranger->fd.get(), nullptr);
  guests->push_back({.src = *src, .fd = std::move(stranger->fd)});
}

// One visit does not look at all who have spoken.
void TcpDoor::PushOut(Stranger* stranger, std::vector<TcpGuest>* guests) {
  Hear(stranger, guests);
  if (stranger->fd.valid()) TurnAway(stranger);
}

void TcpDoor::TurnAway(Stranger* stranger) {
  CloseConnection(epoll_.get(), SHUT_RDWR, &stranger->fd);
  int64_t left_out = 0;
  if (!turned_away_.Allow(&left_out)) return;
  GW_LOG(kInfo, kNet, "tcp: closed a connection that is none of this job's ({} more like it)",
         left_out);
}

}  // namespace gradwire
