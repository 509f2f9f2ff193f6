#include "transports/ucx/ucx_wire.h"

#include <algorithm>
#include <cstring>

namespace gradwire {
namespace {

// UCX's view of a slot. It calls these from ucp_am_send_nbx and ucp_worker_progress only.
void* StartPack(void* /*context*/, const void* buffer, size_t /*count*/) {
  return const_cast<void*>(buffer);
}
size_t PackedSize(void* state) { return static_cast<UcxSlot*>(state)->frame_bytes(); }
size_t PackPart(void* state, size_t offset, void* dst, size_t capacity) {
  return static_cast<UcxSlot*>(state)->Pack(offset, static_cast<std::byte*>(dst), capacity);
}
void FinishPack(void* /*state*/) {}

// Nothing is received by this type.
void* StartUnpack(void* /*context*/, void* buffer, size_t /*count*/) { return buffer; }
ucs_status_t Unpack(void* /*state*/, size_t /*offset*/, const void* /*src*/, size_t /*count*/) {
  return UCS_ERR_UNSUPPORTED;
}

// The part of a frame that UCX asks for.
struct Window {
  size_t offset;
  std::byte* dst;
  size_t capacity;
  size_t done = 0;

  // Adds what is wanted of `part`, which begins at `at` of the frame; null: zeros.
  void Add(size_t at, const std::byte* part, size_t bytes) {
    const size_t from = offset + done;
    if (from < at || from >= at + bytes || done == capacity) return;
    const size_t n = std::min(at + bytes - from, capacity - done);
    if (part != nullptr) {
      std::memcpy(dst + done, part + (from - at), n);
    } else {
      std::memset(dst + done, 0, n);
    }
    done += n;
  }
};

}  // namespace

size_t UcxSlot::Pack(size_t offset, std::byte* dst, size_t capacity) {
  packing = true;
  Window window = {offset, dst, capacity};
  window.Add(0, head.bytes, head.size);
  window.Add(head.size, source, payload_bytes);  // zeros once cut off
  return window.done;
}

void UcxSlot::CutOff() {
  source = nullptr;
  const UcxPrefix cancelled;
  std::memcpy(head.bytes, &cancelled, sizeof cancelled);
}

UcxSlot* UcxSlotPool::Take() {
  if (free_.empty()) free_.push_back(&slots_.emplace_back());
  UcxSlot* slot = free_.back();
  free_.pop_back();
  slot->in_use = true;
  return slot;
}

void UcxSlotPool::Release(UcxSlot* slot) {
  slot->in_use = false;
  free_.push_back(slot);
}

void FillHead(const UcxLayout& layout, int src, const FrameHeader& header, int64_t payload_bytes,
              UcxHead* head) {
  const uint16_t at = payload_bytes == 0 ? layout.bare_payload_at : layout.payload_at;
  const UcxPrefix prefix = {.payload_bytes = static_cast<uint32_t>(payload_bytes),
                            .src = static_cast<uint16_t>(src),
                            .payload_at = at};
  std::memcpy(head->bytes, &prefix, sizeof prefix);
  std::memset(head->bytes + sizeof prefix, 0, at - sizeof prefix - sizeof header);
  std::memcpy(head->bytes + at - sizeof header, &header, sizeof header);
  head->size = at;
}

void FillSlot(const UcxLayout& layout, int src, const FrameHeader& header, ConstBytes fragment,
              UcxSlot* slot) {
  FillHead(layout, src, header, fragment.size, &slot->head);
  slot->payload_bytes = fragment.size;
  slot->source = fragment.data;
  slot->packing = false;
  slot->reported = true;
}

StatusOr<ucp_datatype_t> MakeSlotDatatype(const UcxApi& api) {
  const ucp_generic_dt_ops_t ops = {.start_pack = StartPack,
                                    .start_unpack = StartUnpack,
                                    .packed_size = PackedSize,
                                    .pack = PackPart,
                                    .unpack = Unpack,
                                    .finish = FinishPack};
  ucp_datatype_t datatype = 0;
  const ucs_status_t status = api.ucp_dt_create_generic(&ops, nullptr, &datatype);
  if (status != UCS_OK) return UcxError(api, gwTransportUnavailable, "its datatype", status);
  return datatype;
}

UcxFrameVerdict ParseUcxFrame(ConstBytes message, ConstBytes tail, int world_size,
                              UcxFrame* frame) {
  UcxPrefix prefix;
  if (message.size < static_cast<int64_t>(sizeof prefix)) return UcxFrameVerdict::kMalformed;
  std::memcpy(&prefix, message.data, sizeof prefix);
  if (prefix.payload_at == 0) return UcxFrameVerdict::kCancelled;
  const int64_t end = int64_t{prefix.payload_at} + prefix.payload_bytes;
  const bool whole = prefix.payload_at >= sizeof prefix + sizeof(FrameHeader) &&
                     (tail.empty() ? end <= message.size
                                   : prefix.payload_at == message.size &&
                                         prefix.payload_bytes == static_cast<uint64_t>(tail.size));
  if (!whole || prefix.src >= world_size) return UcxFrameVerdict::kMalformed;
  frame->src = prefix.src;
  std::memcpy(&frame->header, message.data + prefix.payload_at - sizeof(FrameHeader),
              sizeof(FrameHeader));
  frame->payload = tail.empty() ? message.Sub(prefix.payload_at, prefix.payload_bytes) : tail;
  return UcxFrameVerdict::kFrame;
}

}  // namespace gradwire
