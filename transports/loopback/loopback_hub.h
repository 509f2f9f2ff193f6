// What the ends of one loopback share: an inbox per rank. For loopback_transport.cc and its
// factory.
#ifndef GRADWIRE_TRANSPORTS_LOOPBACK_LOOPBACK_HUB_H_
#define GRADWIRE_TRANSPORTS_LOOPBACK_LOOPBACK_HUB_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/workspace.h"
#include "transports/frame/frame.h"
#include "transports/loopback/loopback_transport.h"

namespace gradwire {

struct alignas(kBufferAlign) LoopbackSlot {
  FrameHeader header;
  int64_t bytes;  // of the payload, which lies behind; header.fragment_bytes is only a claim
};

// The queue from one rank to another. The sender alone touches the slot behind the queued ones, the
// receiver alone the queued ones; so the memcpy and the Sink need no mutex.
struct LoopbackRing {
  AlignedBuffer memory;
  int64_t head = 0;  // the receiver's own
  int64_t count = 0;
  bool sender_waits = false;  // it got kFull
};

// What a rank receives; everything but slots is guarded by `mu`.
struct LoopbackInbox {
  std::mutex mu;
  std::condition_variable cv;
  std::vector<LoopbackRing> from;  // by source
  std::vector<bool> gone;          // by source: its end was destroyed
  bool taken = false, closed = false;
  bool news = false;   // since the last Progress
  bool woken = false;  // since the last Wait
};

class LoopbackHub {
 public:
  explicit LoopbackHub(const LoopbackShape& s);
  std::string Address(int rank) const;
  // Checks that all ranks are in this hub, and takes the memory of what `rank` will send.
  Status Connect(int rank, std::span<const std::string> addresses);
  // Applies `change` to a rank's inbox and ends its Wait.
  template <typename Change>
  void Tell(int rank, Change change) {
    std::lock_guard lock(inboxes[rank].mu);
    change(inboxes[rank]);
    inboxes[rank].cv.notify_one();
  }
  LoopbackSlot* SlotAt(LoopbackRing& ring, int64_t index) const {
    const int64_t stride = sizeof(LoopbackSlot) + shape.fragment_bytes;
    return reinterpret_cast<LoopbackSlot*>(ring.memory.data() + index % shape.slots * stride);
  }

  const LoopbackShape shape;
  std::vector<LoopbackInbox> inboxes;
};

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_LOOPBACK_LOOPBACK_HUB_H_
