#include "transports/control/tcp_links.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/byte_stream.h"
#include "transports/control/socket.h"

namespace gradwire {
namespace {

constexpr int kReadBytes = 64 * 1024;
// Per Poll and link, so that one peer that talks without end does not starve the others.
constexpr int kReadsPerPoll = 16;
constexpr int kEventsPerPoll = 64;
constexpr uint32_t kWakeMark = UINT32_MAX;

}  // namespace

TcpLinks::TcpLinks(std::vector<StarLink> stars) : links_(stars.size()), buffer_(kReadBytes) {
  for (size_t i = 0; i < stars.size(); ++i) links_[i].star = std::move(stars[i]);
}

Status TcpLinks::Open() {
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return ErrnoStatus("epoll_create1", errno);
  GW_RETURN_IF_ERROR(wake_.Open());
  epoll_event event{.events = EPOLLIN, .data = {.u32 = kWakeMark}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) < 0) {
    return ErrnoStatus("epoll_ctl", errno);
  }
  for (Link& link : links_) {
    GW_RETURN_IF_ERROR(Watch(&link, EPOLL_CTL_ADD));
    // What the start has read already raises no event: the first Poll must look.
    if (!link.star.unread.empty()) Wake();
  }
  return {};
}

void TcpLinks::CloseAll() {
  for (Link& link : links_) {
    const int fd = link.star.fd.get();
    if (fd < 0) continue;
    (void)WriteSome(fd, &link.out, &link.out_offset);
    (void)shutdown(fd, SHUT_WR);
    // Closing with unread bytes would reset the connection and might take our last words along.
    for (int i = 0; i < kReadsPerPoll; ++i) {
      if (ReadSome(fd, {buffer_.data(), kReadBytes}).kind != ReadOutcome::Kind::kData) break;
    }
    link.star.fd.reset();
  }
}

TcpLinks::Link* TcpLinks::Find(int peer) {
  for (Link& link : links_) {
    if (link.star.peer == peer) return &link;
  }
  return nullptr;
}

Status TcpLinks::Watch(Link* link, int operation) {
  epoll_event event{.events = EPOLLIN | EPOLLRDHUP};
  if (link->writable_wanted) event.events |= EPOLLOUT;
  event.data.u32 = static_cast<uint32_t>(link - links_.data());
  if (epoll_ctl(epoll_.get(), operation, link->star.fd.get(), &event) < 0) {
    return ErrnoStatus("epoll_ctl", errno);
  }
  return {};
}

void TcpLinks::Flush(Link* link) {
  // A failed write needs no report of its own: reading from the same socket fails as well.
  (void)WriteSome(link->star.fd.get(), &link->out, &link->out_offset);
  // What is sent must not pile up in front of what a slow peer leaves. Half: each byte is moved
  // once.
  if (link->out_offset > link->out.size() / 2) {
    link->out.erase(0, link->out_offset);
    link->out_offset = 0;
  }
  const bool wanted = !link->out.empty();
  if (wanted == link->writable_wanted) return;
  link->writable_wanted = wanted;
  (void)Watch(link, EPOLL_CTL_MOD);  // fails only for descriptors that are not ours
}

void TcpLinks::Send(int peer, const std::string& wire) {
  Link* link = Find(peer);
  if (link == nullptr || !link->star.fd.valid() || link->overflown) return;
  if (link->out.size() - link->out_offset + wire.size() > kMaxQueuedBytes) {
    link->overflown = true;
    Wake();  // the next Poll reports it
    return;
  }
  sent_bytes_ += static_cast<int64_t>(wire.size());
  link->out += wire;
  Flush(link);
}

int64_t TcpLinks::held_bytes() const {
  size_t bytes = 0;
  for (const Link& link : links_) bytes += link.out.size();
  return static_cast<int64_t>(bytes);
}

void TcpLinks::Fence(int peer) {
  if (Link* link = Find(peer)) link->fenced = true;
}

void TcpLinks::Lose(Link* link, const Status& cause, LinkSink* sink) {
  CloseConnection(epoll_.get(), SHUT_RDWR, &link->star.fd);
  link->out.clear();
  link->out_offset = 0;
  if (std::exchange(link->reported, true) || link->fenced) return;
  sink->OnLinkLost(link->star.peer, cause);
}

bool TcpLinks::Digest(Link* link, ConstBytes bytes, LinkSink* sink) {
  while (!link->fenced) {
    ControlMessage message;
    const StatusOr<bool> complete = link->star.reader.Next(&bytes, &message);
    if (!complete.ok()) {
      Lose(link, complete.status(), sink);
      return false;
    }
    if (!*complete) return true;
    sink->OnLinkMessage(link->star.peer, std::move(message));
  }
  return true;
}

void TcpLinks::Read(Link* link, LinkSink* sink) {
  if (!Digest(link, TextBytes(std::exchange(link->star.unread, {})), sink)) return;
  for (int i = 0; i < kReadsPerPoll; ++i) {
    const ReadOutcome got = ReadSome(link->star.fd.get(), {buffer_.data(), kReadBytes});
    switch (got.kind) {
      case ReadOutcome::Kind::kNothingYet: return;
      case ReadOutcome::Kind::kData:
        if (!Digest(link, got.data, sink)) return;
        break;
      case ReadOutcome::Kind::kClosed: {
        const char* where = link->star.reader.partial() ? " in the middle of a message" : "";
        return Lose(link, Status(gwPeerLost, fmt::format("connection closed{}", where)), sink);
      }
      case ReadOutcome::Kind::kFailed:
        return Lose(link, Status(gwPeerLost, std::strerror(got.error)), sink);
    }
  }
}

void TcpLinks::Visit(Link* link, LinkSink* sink) {
  if (!link->star.fd.valid()) return;
  if (link->overflown) {
    return Lose(link, Status(gwPeerLost, "it does not take its control messages"), sink);
  }
  if (!link->out.empty()) Flush(link);
  Read(link, sink);
}

void TcpLinks::Poll(LinkSink* sink) {
  epoll_event events[kEventsPerPoll];
  const int count = epoll_wait(epoll_.get(), events, kEventsPerPoll, 0);
  bool visit_all = false;
  for (int i = 0; i < count; ++i) {
    const uint32_t mark = events[i].data.u32;
    if (mark == kWakeMark) {
      wake_.Take();
      visit_all = true;
    } else {
      Visit(&links_[mark], sink);
    }
  }
  if (!visit_all) return;
  for (Link& link : links_) Visit(&link, sink);
}

bool TcpLinks::Wait(int timeout_ms) {
  epoll_event event;
  return epoll_wait(epoll_.get(), &event, 1, timeout_ms) > 0;
}

}  // namespace gradwire
