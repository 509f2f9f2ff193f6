// A frame as it travels in one UCX active message, and the slot that holds it until UCX has it.
//
//   offset 0        UcxPrefix
//   payload_at-64   FrameHeader
//   payload_at      payload, then up to 63 zeros on TCP
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
  // TCP delivers from a stream: the next payload is aligned if each message, with UCX's headers of
  // this size, is a multiple of 64. 0: messages have segments of their own.
  uint16_t stream_headers;
};
inline constexpr UcxLayout kUcxSegmentLayout = {120, 72, 0};  // 8 bytes of UCX's before it
inline constexpr UcxLayout kUcxStreamLayout = {115, 115, 13};

struct UcxPeer;

// One accepted fragment until UCX lets go of it. The source is read in Pack and nowhere else, so it
// is free as soon as `source` is cut off, whatever UCX still holds.
struct UcxSlot {
  alignas(8) std::byte head[128];  // prefix and header: the frame up to its payload
  size_t head_bytes = 0;
  size_t payload_bytes = 0;
  size_t frame_bytes = 0;
  const std::byte* source = nullptr;
  bool packing = false;  // UCX has taken a part
  bool in_use = false;   // between Take and Release
  bool reported = true;  // its token was, or it has none
  SendToken token = 0;
  uint32_t op_seq = 0;
  UcxPeer* peer = nullptr;

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

// Writes head and sizes for a fragment from rank `src`.
void FillSlot(const UcxLayout& layout, int src, const FrameHeader& header, ConstBytes fragment,
              UcxSlot* slot);

// UCX's datatype "a UcxSlot, packed by Pack". gwTransportUnavailable when UCX refuses.
StatusOr<ucp_datatype_t> MakeSlotDatatype(const UcxApi& api);

enum class UcxFrameVerdict { kFrame, kCancelled, kMalformed };

struct UcxFrame {
  int src = -1;
  FrameHeader header;
  ConstBytes payload;  // inside the message
};

// Takes a message apart. Any bytes whatever give a verdict; `frame` is set for kFrame only.
UcxFrameVerdict ParseUcxFrame(ConstBytes message, int world_size, UcxFrame* frame);

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_UCX_UCX_WIRE_H_
