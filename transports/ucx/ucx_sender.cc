#include "transports/ucx/ucx_sender.h"

#include <fmt/format.h>
#include <sched.h>

#include <cstring>

#include "base/log.h"

namespace gradwire {
namespace {

// Bounds what a peer that has stopped receiving can make us hold.
constexpr int kSlotsPerPeer = 64;

constexpr int64_t kFlushBoundNs = kNsPerSecond;
constexpr int64_t kCloseBoundNs = kNsPerSecond / 2;

}  // namespace

UcxSender::UcxSender(UcxWorker& worker, int rank, int world_size)
    : worker_(worker),
      rank_(rank),
      layout_(worker.plan.fabric == UcxFabric::kTcp ? kUcxStreamLayout : kUcxSegmentLayout),
      peers_(world_size) {
  for (int i = 0; i < world_size; ++i) {
    peers_[i].sender = this;
    peers_[i].rank = i;
  }
}

UcxSender::~UcxSender() {
  if (slot_type_ != 0) api().ucp_dt_destroy(slot_type_);
}

Status UcxSender::Start() {
  StatusOr<ucp_datatype_t> type = MakeSlotDatatype(api());
  if (!type.ok()) return type.status();
  slot_type_ = *type;
  bare_param_.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  bare_param_.cb.send = OnComplete;
  bare_param_.flags = UCP_AM_SEND_FLAG_EAGER;
  fragment_param_ = bare_param_;
  fragment_param_.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
  fragment_param_.datatype = slot_type_;
  return Status::Ok();
}

void UcxSender::SetAddresses(std::vector<std::string> addresses) {
  for (size_t i = 0; i < peers_.size(); ++i) peers_[i].address = std::move(addresses[i]);
}

Status UcxSender::Open(int rank) {
  UcxPeer& peer = peers_[rank];
  if (peer.endpoint != nullptr || peer.lost) return Status::Ok();
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(peer.address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {.cb = OnEndpointError, .arg = &peer};
  const ucs_status_t status = api().ucp_ep_create(worker_.worker, &params, &peer.endpoint);
  if (status == UCS_OK) {
    peer.address = {};
    Greet(&peer);
    return Status::Ok();
  }
  peer.endpoint = nullptr;
  return UcxError(api(), gwTransportUnavailable,
                  fmt::format("an endpoint to rank {} over {}", rank, worker_.resources), status)
      .WithPeer(rank)
      .WithHint(
          "the ranks need a transport in common: compare UCX_TLS, UCX_NET_DEVICES and the "
          "interface on both; containers need one PID namespace for shared memory");
}

// UCX connects the two ends with the first message that is not inline, and until the other end has
// answered everything else waits. So one that nobody gets goes first.
void UcxSender::Greet(UcxPeer* peer) {
  static constexpr std::byte kNothing[64] = {};
  UcxSlot* slot = slots_.Take();
  FillSlot(layout_, rank_, {}, {kNothing, sizeof kNothing}, slot);
  slot->CutOff();
  slot->peer = peer;
  HandOver(peer, slot);
}

void UcxSender::Watch(int rank) {
  if (Status opened = Open(rank); !opened.ok()) Lose(&peers_[rank], std::move(opened));
}

SendOutcome UcxSender::TrySend(int rank, const FrameHeader& header, ConstBytes fragment,
                               SendToken token) {
  UcxPeer& peer = peers_[rank];
  if (peer.lost) return SendOutcome::kLost;
  if (peer.held >= kSlotsPerPeer) return SendOutcome::kFull;
  if (peer.endpoint == nullptr) Watch(rank);
  if (peer.lost) return SendOutcome::kLost;
  UcxSlot* slot = slots_.Take();
  FillSlot(layout_, rank_, header, fragment, slot);
  slot->token = token;
  slot->peer = &peer;
  const SendOutcome outcome = HandOver(&peer, slot);
  if (outcome != SendOutcome::kAccepted) return outcome;
  framing_bytes_ += layout_.stream_headers +
                    static_cast<int64_t>(slot->frame_bytes - fragment.size - sizeof(FrameHeader));
  if (!slot->in_use) {
    sent_.push_back(token);
    return outcome;
  }
  slot->reported = false;
  if (peer.lost) CutOff(slot);  // in the middle of this send
  return outcome;
}

// The slot is released unless UCX keeps it.
SendOutcome UcxSender::HandOver(UcxPeer* peer, UcxSlot* slot) {
  ucs_status_ptr_t request;
  if (slot->payload_bytes == 0) {
    // A bare header goes as UCX's "user header", which shared memory sends inline.
    bare_param_.user_data = slot;
    request = api().ucp_am_send_nbx(peer->endpoint, kUcxMessageId, slot->head, slot->head_bytes,
                                    nullptr, 0, &bare_param_);
  } else {
    fragment_param_.user_data = slot;
    request =
        api().ucp_am_send_nbx(peer->endpoint, kUcxMessageId, nullptr, 0, slot, 1, &fragment_param_);
  }
  if (request != nullptr && !UCS_PTR_IS_ERR(request)) {
    ++peer->held;
    return SendOutcome::kAccepted;
  }
  slots_.Release(slot);
  if (request == nullptr) return SendOutcome::kAccepted;
  const ucs_status_t status = UCS_PTR_STATUS(request);
  if (status == UCS_ERR_NO_RESOURCE) return SendOutcome::kFull;
  Lose(peer, UcxError(api(), gwPeerLost, fmt::format("a send to rank {}", peer->rank), status));
  return SendOutcome::kLost;
}

void UcxSender::OnComplete(void* request, ucs_status_t /*status*/, void* slot_data) {
  // A failed send is reported as the peer's loss by OnEndpointError; the source is free either way.
  UcxSlot* slot = static_cast<UcxSlot*>(slot_data);
  UcxSender* sender = slot->peer->sender;
  --slot->peer->held;
  sender->ReportSent(slot);
  sender->slots_.Release(slot);
  sender->api().ucp_request_free(request);
}

void UcxSender::ReportSent(UcxSlot* slot) {
  if (!slot->reported) sent_.push_back(slot->token);
  slot->reported = true;
}

void UcxSender::CutOff(UcxSlot* slot) {
  slot->CutOff();
  ReportSent(slot);
}

void UcxSender::Cancel(uint32_t op_seq) {
  for (UcxSlot& slot : slots_.slots()) {
    FrameHeader header;
    if (!slot.in_use || slot.reported || slot.packing) continue;
    std::memcpy(&header, slot.head + slot.head_bytes - sizeof header, sizeof header);
    // Messages between two ranks have a numbering of their own.
    if (header.op_seq != op_seq || (header.flags & kFramePointToPoint) != 0) continue;
    CutOff(&slot);
  }
}

void UcxSender::OnEndpointError(void* peer_data, ucp_ep_h /*endpoint*/, ucs_status_t status) {
  UcxPeer* peer = static_cast<UcxPeer*>(peer_data);
  UcxSender* sender = peer->sender;
  sender->Lose(peer, UcxError(sender->api(), gwPeerLost,
                              fmt::format("the connection to rank {}", peer->rank), status));
}

void UcxSender::Lose(UcxPeer* peer, Status cause) {
  if (peer->lost) return;
  peer->lost = true;
  for (UcxSlot& slot : slots_.slots()) {
    if (!slot.in_use || slot.peer != peer) continue;
    CutOff(&slot);
  }
  lost_.emplace_back(peer->rank, std::move(cause).WithPeer(peer->rank));
  if (peer->endpoint != nullptr) to_close_.push_back(peer);
}

void UcxSender::CloseLost() {
  for (UcxPeer* peer : to_close_) Close(peer);
  to_close_.clear();
}

// By force: UCX completes what it holds for the peer, as cancelled, and tells it nothing.
void UcxSender::Close(UcxPeer* peer) {
  ucp_request_param_t param = {};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.cb.send = OnClosed;
  param.user_data = this;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  Count(api().ucp_ep_close_nbx(std::exchange(peer->endpoint, nullptr), &param));
}

void UcxSender::Count(ucs_status_ptr_t request) {
  if (request == nullptr) return;
  if (!UCS_PTR_IS_ERR(request)) {
    ++closing_;
    return;
  }
  // Of an endpoint that has failed meanwhile; it is gone all the same.
  GW_LOG(kInfo, kNet, "ucx: closing an endpoint: {}",
         api().ucs_status_string(UCS_PTR_STATUS(request)));
}

void UcxSender::OnClosed(void* request, ucs_status_t /*status*/, void* sender_data) {
  UcxSender* sender = static_cast<UcxSender*>(sender_data);
  --sender->closing_;
  sender->api().ucp_request_free(request);
}

int UcxSender::Report(Sink* sink) {
  const int reports = static_cast<int>(sent_.size() + lost_.size());
  for (const SendToken token : sent_) sink->OnSent(token);
  sent_.clear();
  for (const auto& [rank, cause] : lost_) sink->OnPeerLost(rank, cause);
  lost_.clear();
  return reports;
}

void UcxSender::Shutdown(const Clock& clock) {
  CloseLost();
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = OnClosed;
  param.user_data = this;
  for (UcxPeer& peer : peers_) {
    if (peer.endpoint != nullptr) Count(api().ucp_ep_flush_nbx(peer.endpoint, &param));
  }
  AwaitClosing(clock, kFlushBoundNs);
  CloseLost();
  for (UcxPeer& peer : peers_) {
    if (peer.endpoint != nullptr) Close(&peer);
  }
  AwaitClosing(clock, kCloseBoundNs);
}

void UcxSender::AwaitClosing(const Clock& clock, int64_t bound_ns) {
  const Deadline deadline = Deadline::After(clock, bound_ns);
  while (closing_ > 0 && !deadline.Expired(clock)) {
    if (api().ucp_worker_progress(worker_.worker) == 0) sched_yield();
  }
  if (closing_ > 0) GW_LOG(kInfo, kNet, "ucx: {} peers did not take what was sent", closing_);
}

}  // namespace gradwire
