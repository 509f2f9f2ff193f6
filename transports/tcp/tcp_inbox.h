// TcpInbox: the stream from one peer, cut into frames where it lies. It knows no socket.
#ifndef GRADWIRE_TRANSPORTS_TCP_TCP_INBOX_H_
#define GRADWIRE_TRANSPORTS_TCP_TCP_INBOX_H_

#include <cstdint>
#include <string>

#include "base/status.h"
#include "base/view.h"
#include "base/workspace.h"
#include "transports/frame/frame.h"

namespace gradwire {

class TcpInbox {
 public:
  enum class Next {
    kFrame,
    kNothing,  // the rest has yet to come
    kDamaged,  // nothing that follows can be told from noise
  };

  // Takes the memory for frames of up to that payload: a few times as much.
  Status Open(int32_t max_payload_bytes);

  // Where the bytes that come next belong: room for one more frame at least. After Next has
  // answered kNothing.
  Bytes Space();
  void Added(int64_t bytes) { end_ += bytes; }

  // The next frame, whose payload is aligned to kTcpAlign, and to kBufferAlign where frames come
  // one at a time; valid until Space.
  Next Take(FrameHeader* header, ConstBytes* payload);

  // The stream ends in the middle of a frame. After Next has answered kNothing.
  bool partial() const { return begin_ != end_; }

 private:
  AlignedBuffer memory_;
  int64_t max_payload_bytes_ = 0;
  int64_t begin_ = 0, end_ = 0;  // of what has not been taken
};

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_TCP_TCP_INBOX_H_
