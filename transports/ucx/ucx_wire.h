// A frame as it travels in one UCX active message, and the slot that holds it where UCX queues.
//
//   offset 0        UcxPrefix
//   payload_at-64   FrameHeader
//   payload_at      payload
//
// payload_at is such that, with UCX's own headers before it, the payload starts at a multiple of 64
// in the receiver's segment; a receiver reads it from the prefix and depends on no version of UCX.
#ifndef GRADWIRE_TRANSPORTS_UCX_UCX_WIRE_H_
#define GRADWIRE_TRANSPORTS_UCX_UCX_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/view.h"
#include "transports/frame/frame.h"
#include "transports/transport.h"
#include "transports/ucx/ucx_api.h"

namespace gradwire {

// What a segment must hold besides the payload: our head and tail, and UCX's headers with some air.
inline constexpr int32_t kUcxSegmentOverheadBytes = 192;

// Number of the active message that carries frames.
inline constexpr unsigned kUcxMessageId = 0;

struct UcxPrefix {
  uint32_t payload_bytes = 0;
  uint16_t src = 0;         // sending rank: the frame header's may be damaged
  uint16_t payload_at = 0;  // 0: cancelled after UCX had accepted it; drop
};

// How frames are laid out on one fabric.
struct UcxLayout {
  uint16_t payload_at;       // of a frame with payload
  uint16_t bare_payload_at;  // of one without
  uint16_t ucx_bytes;        // UCX's own headers before each message
};
// In an element of the receiver's queue; 28 bytes of the queue's own come first.
inline constexpr UcxLayout kUcxQueueLayout = {92, 72, 8};
// In the stream of a connection. Where a message ends the next one begins, so payloads of a
// multiple of 64 bytes keep each other aligned.
inline constexpr UcxLayout kUcxStreamLayout = {115, 115, 13};
// In a segment of its own.
inline constexpr UcxLayout kUcxSegmentLayout = {120, 72, 8};

// What comes before the payload.
struct UcxHead {
  alignas(8) std::byte bytes[128];
  size_t size = 0;
};

struct UcxPeer;

// One accepted fragment until UCX lets go of it. The source is read in Pack and nowhere else, so it
// is free as soon as `source` is cut off, whatever UCX still holds.
struct UcxSlot {
  UcxHead head;
  size_t payload_bytes = 0;
  const std::byte* source = nullptr;
  bool packing = false;  // UCX has taken a part
  bool in_use = false;   // between Take and Release
  bool reported = true;  // its token was, or it has none
  SendToken token = 0;
  UcxPeer* peer = nullptr;

  size_t frame_bytes() const { return head.size + payload_bytes; }
  // Writes bytes [offset, offset + capacity) of the frame, as far as it goes; returns how many.
  size_t Pack(size_t offset, std::byte* dst, size_t capacity);
  // What UCX has yet to pack will be dropped by the receiver, and the source is free.
  void CutOff();
};

// Slots are never given back to the heap, so a pool in steady state allocates nothing. One thread.
class UcxSlotPool {
 public:
  UcxSlot* Take();
  void Release(UcxSlot* slot);
  // All there are; see in_use.
  std::deque<UcxSlot>& slots() { return slots_; }

 private:
  std::deque<UcxSlot> slots_;  // addresses stay
  std::vector<UcxSlot*> free_;
};

// Writes what precedes a payload of so many bytes from rank `src`.
void FillHead(const UcxLayout& layout, int src, const FrameHeader& header, int64_t payload_bytes,
              UcxHead* head);
// The same and the payload's place, into a slot without a token.
void FillSlot(const UcxLayout& layout, int src, const FrameHeader& header, ConstBytes fragment,
              UcxSlot* slot);

// UCX's datatype "a UcxSlot, packed by Pack". gwTransportUnavailable when UCX refuses.
StatusOr<ucp_datatype_t> MakeSlotDatatype(const UcxApi& api);

enum class UcxFrameVerdict { kFrame, kCancelled, kMalformed };

struct UcxFrame {
  int src = -1;
  FrameHeader header;
  ConstBytes payload;  // inside the message or its tail
};

// Takes a message apart whose payload is in `tail` or, where that is empty, in the message itself.
// Any bytes whatever give a verdict; `frame` is set for kFrame only.
UcxFrameVerdict ParseUcxFrame(ConstBytes message, ConstBytes tail, int world_size, UcxFrame* frame);

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_UCX_UCX_WIRE_H_
