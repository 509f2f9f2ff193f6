#include "transports/ucx/ucx_receiver.h"

#include <cstring>
#include <utility>

namespace gradwire {
namespace {

constexpr uintptr_t kPayloadAlign = 8;  // of the widest element

}  // namespace

UcxReceiver::UcxReceiver(UcxWorker& worker, const Clock& clock, int world_size)
    : worker_(worker), heard_(world_size), bad_frames_(clock, 5, kNsPerSecond) {}

Status UcxReceiver::Start() {
  GW_RETURN_IF_ERROR(scratch_.EnsureBytes(worker_.plan.fragment_bytes));
  ucp_am_handler_param_t param = {};
  param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                     UCP_AM_HANDLER_PARAM_FIELD_ARG;
  param.id = kUcxMessageId;
  param.cb = OnMessage;
  param.arg = this;
  const ucs_status_t status = worker_.api->ucp_worker_set_am_recv_handler(worker_.worker, &param);
  if (status == UCS_OK) return Status::Ok();
  return UcxError(*worker_.api, gwTransportUnavailable, "active messages", status);
}

int UcxReceiver::TakeCount() { return std::exchange(count_, 0); }

ucs_status_t UcxReceiver::OnMessage(void* self, const void* header, size_t header_bytes, void* data,
                                    size_t bytes, const ucp_am_recv_param_t* param) {
  UcxReceiver* receiver = static_cast<UcxReceiver*>(self);
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
    receiver->Drop("asks for a rendezvous", bytes);  // nobody of ours does
  } else {
    receiver->Deliver({static_cast<const std::byte*>(data), static_cast<int64_t>(bytes)},
                      {static_cast<const std::byte*>(header), static_cast<int64_t>(header_bytes)});
  }
  return UCS_OK;  // UCX may have its segment back
}

void UcxReceiver::Deliver(ConstBytes message, ConstBytes tail) {
  if (sink_ == nullptr) return;
  UcxFrame frame;
  switch (ParseUcxFrame(message, tail, static_cast<int>(heard_.size()), &frame)) {
    case UcxFrameVerdict::kCancelled: return;
    case UcxFrameVerdict::kMalformed: return Drop("is no frame", message.size);
    case UcxFrameVerdict::kFrame: break;
  }
  if (frame.payload.size > worker_.plan.fragment_bytes) return Drop("is too long", message.size);
  if (!heard_[frame.src]) new_peers_.push_back(frame.src);
  heard_[frame.src] = true;
  ++count_;
  sink_->OnFragment(frame.src, frame.header, Aligned(frame.payload));
}

// In a stream an odd length shifts what follows, until UCX's buffer runs empty.
ConstBytes UcxReceiver::Aligned(ConstBytes payload) {
  if (reinterpret_cast<uintptr_t>(payload.data) % kPayloadAlign == 0) return payload;
  std::memcpy(scratch_.data(), payload.data, payload.size);
  return {scratch_.data(), payload.size};
}

void UcxReceiver::Drop(const char* why, int64_t bytes) {
  int64_t left_out = 0;
  if (!bad_frames_.Allow(&left_out)) return;
  GW_LOG(kError, kNet, "ucx: dropped a message of {} bytes that {} ({} more like it)", bytes, why,
         left_out);
}

}  // namespace gradwire
