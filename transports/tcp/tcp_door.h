// TcpDoor: where peers come in. Listens on one address and lets in who knows its token.
#ifndef GRADWIRE_TRANSPORTS_TCP_TCP_DOOR_H_
#define GRADWIRE_TRANSPORTS_TCP_TCP_DOOR_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "transports/bootstrap/address.h"
#include "transports/tcp/tcp_wire.h"

namespace gradwire {

// A connection whose hello was right; what follows the hello has not been read.
struct TcpGuest {
  int src = -1;
  UniqueFd fd;
};

// Strangers, connections that have not said hello, cost a descriptor and a few bytes each. There
// are at most MostStrangers, one more pushes the oldest out; none stays longer than kPatienceNs. A
// member who is pushed out calls again, and has kYouthNs to say hello. Where this process has no
// descriptor left there is still room for one of them: strangers cannot keep members out.
class TcpDoor {
 public:
  // Members are strangers too until they are heard, and all may come at once.
  static size_t MostStrangers(int world_size) { return 64 + static_cast<size_t>(world_size); }
  static constexpr int64_t kPatienceNs = 15 * kNsPerSecond;
  // Nobody younger is pushed out. While all are, others stay in the backlog.
  static constexpr int64_t kYouthNs = 100 * kNsPerMs;

  // `clock` outlives this.
  TcpDoor(const Clock& clock, int world_size);

  // Listens there, with a fresh token.
  Status Open(const SocketAddress& address);

  const TcpToken& token() const { return token_; }
  const SocketAddress& address() const { return address_; }
  // Readable when Visit has something to do.
  int fd() const { return epoll_.get(); }
  // Some time is up: Visit has something to do although fd() is not readable.
  bool overdue() const;
  // How long nobody could come in for want of what a connection takes of this process; 0: whoever
  // knocked has come in, or will once a stranger has had his time.
  int64_t short_for_ns() const;

  // Hears who has come and appends those that are let in; never blocks.
  void Visit(std::vector<TcpGuest>* guests);

 private:
  struct Stranger {
    UniqueFd fd;
    int64_t since_ns = 0;
    std::array<std::byte, sizeof(TcpHello)> hello;
    int64_t heard_bytes = 0;
  };

  // Afterwards a stranger whose descriptor is gone is none any more.
  void Hear(Stranger* stranger, std::vector<TcpGuest>* guests);
  void TurnAway(Stranger* stranger);
  // Unless it has said hello meanwhile.
  void PushOut(Stranger* stranger, std::vector<TcpGuest>* guests);
  void AcceptAll(std::vector<TcpGuest>* guests);
  int Accept(UniqueFd* fd) const;
  void PushOutOldest(std::vector<TcpGuest>* guests);
  // Who knocks stays in the backlog until then, and ends no wait.
  void RestUntil(int64_t ns);
  // One more connection could not be accepted or watched: errno.
  void Refused(int error);
  int Watch(int fd);       // errno; 0: it went well
  bool Outstayed() const;  // the oldest stranger

  const Clock& clock_;
  const int world_size_;
  UniqueFd epoll_, listener_;
  UniqueFd spare_;  // its place is for the next one who knocks where there is no other
  SocketAddress address_;
  TcpToken token_ = {};
  std::vector<Stranger> strangers_;  // oldest first
  int64_t listen_again_ns_ = 0;      // 0: it listens
  std::optional<int64_t> short_since_ns_;
  LogRateLimit turned_away_, runs_short_;
};

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_TCP_TCP_DOOR_H_
