// TcpOutbox: what is to be written to one connection. A bounded queue of frames whose payloads stay
// where the caller has them; it knows no socket.
#ifndef GRADWIRE_TRANSPORTS_TCP_TCP_OUTBOX_H_
#define GRADWIRE_TRANSPORTS_TCP_TCP_OUTBOX_H_

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/view.h"
#include "transports/tcp/tcp_wire.h"
#include "transports/transport.h"

namespace gradwire {

class TcpOutbox {
 public:
  // Queued at most, and what one Gather covers.
  static constexpr size_t kMostFrames = 8;
  // Head, payload and pad of each.
  static constexpr size_t kMostPieces = 3 * kMostFrames;

  TcpOutbox() { frames_.reserve(kMostFrames); }

  bool empty() const { return frames_.empty(); }
  bool full() const { return frames_.size() >= kMostFrames; }

  // Goes out before all frames; when empty(). No Cancel takes it away.
  void Greet(const TcpHello& hello);
  // It is not all out yet, and so no frame is.
  bool greets() const { return greets_; }
  // While greets(): from the start again, to another connection.
  void GreetAgain() { written_ = 0; }

  // `payload` stays unmodified until its token is done. Not when full(). Returns the bytes that
  // travel besides header and payload.
  int64_t Push(const FrameHeader& header, ConstBytes payload, SendToken token);

  // What is to be written next, in `pieces`; valid until the next call that is not const.
  std::span<iovec> Gather(std::array<iovec, kMostPieces>* pieces) const;
  // So many bytes of it were written. Tokens that are done are appended, here and below.
  void Advance(int64_t bytes, std::vector<SendToken>* done);

  // Drops the operation's frames; of one that is half written the rest is copied aside.
  void Cancel(uint32_t op_seq, std::vector<SendToken>* done);
  // Drops everything.
  void Clear(std::vector<SendToken>* done);

 private:
  struct Frame {
    std::array<std::byte, kTcpHeadBytes> head;
    int64_t head_bytes = 0;
    ConstBytes payload;
    bool has_token = false;  // which is not done yet
    SendToken token = 0;
    uint32_t op_seq = 0;
    bool point_to_point = false;

    int64_t bytes() const { return head_bytes + payload.size + TcpPadBytes(payload.size); }
    template <typename Part>
    void AppendToHead(const Part& part);
    void Report(std::vector<SendToken>* done);
  };

  std::vector<Frame> frames_;
  bool greets_ = false;
  int64_t written_ = 0;           // of the first
  std::vector<std::byte> aside_;  // the payload of the first, where that was cancelled
};

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_TCP_TCP_OUTBOX_H_
