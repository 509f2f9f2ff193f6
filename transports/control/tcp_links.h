// TcpLinks: the links over connected sockets, as the start (bootstrap) leaves them.
#ifndef GRADWIRE_TRANSPORTS_CONTROL_TCP_LINKS_H_
#define GRADWIRE_TRANSPORTS_CONTROL_TCP_LINKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "base/wake_fd.h"
#include "transports/control/links.h"
#include "transports/control/message.h"

namespace gradwire {

// One connected, authenticated peer.
struct StarLink {
  int peer = -1;
  UniqueFd fd;           // a stream socket, prepared
  MessageReader reader;  // as far as the start has read
  std::string unread;    // received, not yet given to the reader
};

// Threads: Wait by one thread and Wake by any at any time; everything else one at a time (it may be
// during a Wait, which then goes on with what changed).
class TcpLinks : public ControlLinks {
 public:
  static constexpr size_t kMaxQueuedBytes = 4 << 20;

  explicit TcpLinks(std::vector<StarLink> links);
  ~TcpLinks() override { CloseAll(); }

  // The first call. gwSystemError: it lacks descriptors or memory, and is of use for last words
  // only: Send and CloseAll.
  Status Open();

  // A peer that lets more than kMaxQueuedBytes pile up is reported as lost.
  void Send(int peer, const std::string& wire) override;
  void Poll(LinkSink* sink) override;
  void Fence(int peer) override;

  // Sends what still fits and closes; never blocks. Not during a Wait.
  void CloseAll();

  // Of all messages sent so far.
  int64_t sent_bytes() const { return sent_bytes_; }
  // Kept in memory for all peers; at most twice what they have not taken.
  int64_t held_bytes() const;

  // Until Poll may have work or Wake: true; or the time has passed. -1: no bound.
  bool Wait(int timeout_ms);
  void Wake() { wake_.Wake(); }

 private:
  struct Link {
    StarLink star;
    std::string out;
    size_t out_offset = 0;
    bool fenced = false;
    bool writable_wanted = false;
    bool reported = false;  // as lost
    bool overflown = false;
  };
  Link* Find(int peer);
  Status Watch(Link* link, int operation);
  void Flush(Link* link);
  void Visit(Link* link, LinkSink* sink);
  void Read(Link* link, LinkSink* sink);
  // False: the stream is of no use any more, and that was reported.
  bool Digest(Link* link, ConstBytes bytes, LinkSink* sink);
  void Lose(Link* link, const Status& cause, LinkSink* sink);

  UniqueFd epoll_;
  WakeFd wake_;
  std::vector<Link> links_;
  std::vector<std::byte> buffer_;
  int64_t sent_bytes_ = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_CONTROL_TCP_LINKS_H_
