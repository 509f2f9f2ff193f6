#include "transports/ucx/ucx_sender.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "transports/connect_bound.h"

namespace gradwire {
namespace {

// Bounds what a peer that has stopped receiving can make UCX hold.
constexpr int kSlotsPerPeer = 64;

// A connection over TCP takes the peer's progress, so its first frames may be refused for a while.
// After this it must be that UCX has no room for them ever.
constexpr int64_t kFirstRefusalNs = 2 * kNsPerSecond;

const UcxLayout& LayoutOf(UcxFabric fabric) {
  switch (fabric) {
    case UcxFabric::kShared: return kUcxQueueLayout;
    case UcxFabric::kTcp: return kUcxStreamLayout;
    case UcxFabric::kOther: break;
  }
  return kUcxSegmentLayout;
}

}  // namespace

UcxSender::UcxSender(UcxWorker& worker, const Clock& clock, int rank, int world_size,
                     int64_t death_timeout_ns)
    : worker_(worker),
      clock_(clock),
      rank_(rank),
      connect_bound_ns_(ConnectBoundNs(death_timeout_ns)),
      layout_(LayoutOf(worker.plan.fabric)),
      peers_(world_size) {
  for (int i = 0; i < world_size; ++i) {
    peers_[i].sender = this;
    peers_[i].rank = i;
    peers_[i].queued = worker.plan.fabric == UcxFabric::kOther;
  }
}

UcxSender::~UcxSender() {
  if (slot_type_ != 0) api().ucp_dt_destroy(slot_type_);
}

Status UcxSender::Start() {
  StatusOr<ucp_datatype_t> type = MakeSlotDatatype(api());
  if (!type.ok()) return type.status();
  slot_type_ = *type;
  short_param_.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
  short_param_.flags = UCP_AM_SEND_FLAG_EAGER;
  queued_param_.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                               UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_DATATYPE;
  queued_param_.cb.send = OnComplete;
  queued_param_.flags = UCP_AM_SEND_FLAG_EAGER;
  queued_param_.datatype = slot_type_;
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
    return Status::Ok();
  }
  peer.endpoint = nullptr;
  if (status == UCS_ERR_NO_MEMORY) {
    return UcxError(api(), gwSystemError, fmt::format("an endpoint to rank {}", rank), status)
        .WithPeer(rank);
  }
  return UcxError(api(), gwTransportUnavailable,
                  fmt::format("an endpoint to rank {} over {}", rank, worker_.resources), status)
      .WithPeer(rank)
      .WithHint(
          "The ranks need a transport in common: compare UCX_TLS, UCX_NET_DEVICES and the "
          "interface on both; containers need one PID namespace for shared memory");
}

// Also where there is an endpoint: the neighbour's is made at the start, and nobody hears of it.
// UCX 1.13 tells nobody of a connection over TCP that fails before it stands.
void UcxSender::Watch(int rank) {
  UcxPeer& peer = peers_[rank];
  const Status opened = Open(rank);
  if (!opened.ok()) {
    // It was reachable when the addresses were made, so it is the peer that has gone, unless this
    // process has nothing left.
    const gwResult_t code = opened.code() == gwSystemError ? gwSystemError : gwPeerLost;
    return Lose(&peer, Status(code, opened.detail().message, opened.detail().hint));
  }
  const bool can_hang = worker_.plan.fabric == UcxFabric::kTcp && connect_bound_ns_ > 0;
  if (!can_hang || peer.lost || peer.watched_since_ns > 0) return;
  peer.watched_since_ns = clock_.NowNs();
  connecting_.push_back(&peer);
}

SendOutcome UcxSender::TrySend(int rank, const FrameHeader& header, ConstBytes fragment,
                               SendToken token) {
  UcxPeer& peer = peers_[rank];
  if (!peer.used) Watch(rank);
  if (peer.lost) return SendOutcome::kLost;
  SendOutcome outcome;
  if (peer.queued) {
    if (peer.held >= kSlotsPerPeer) return SendOutcome::kFull;
    UcxSlot* slot = slots_.Take();
    FillSlot(layout_, rank_, header, fragment, slot);
    slot->token = token;
    slot->peer = &peer;
    outcome = SendQueued(&peer, slot);
    if (outcome == SendOutcome::kAccepted) Expect(slot);
  } else {
    UcxHead head;
    FillHead(layout_, rank_, header, fragment.size, &head);
    outcome = SendShort(&peer, head, fragment);
    if (outcome == SendOutcome::kAccepted) sent_.push_back(token);
  }
  if (outcome != SendOutcome::kAccepted) return outcome;
  peer.used = true;
  const bool bare = fragment.empty();
  framing_bytes_ += layout_.ucx_bytes + (bare ? layout_.bare_payload_at : layout_.payload_at) -
                    static_cast<int64_t>(sizeof header);
  return outcome;
}

// The payload goes as UCX's "user header", which follows the message proper: only so do both parts
// go short, without being put together first.
ucs_status_t UcxSender::TryShort(const UcxPeer& peer, const UcxHead& head, ConstBytes fragment) {
  const ucs_status_ptr_t sent =
      api().ucp_am_send_nbx(peer.endpoint, kUcxMessageId, fragment.data, fragment.size, head.bytes,
                            head.size, &short_param_);
  return UCS_PTR_STATUS(sent);
}

SendOutcome UcxSender::SendShort(UcxPeer* peer, const UcxHead& head, ConstBytes fragment) {
  const ucs_status_t status = TryShort(*peer, head, fragment);
  return status == UCS_OK ? SendOutcome::kAccepted : Refused(peer, status);
}

// The slot is released unless UCX keeps it.
SendOutcome UcxSender::SendQueued(UcxPeer* peer, UcxSlot* slot) {
  queued_param_.user_data = slot;
  const ucs_status_ptr_t request =
      api().ucp_am_send_nbx(peer->endpoint, kUcxMessageId, nullptr, 0, slot, 1, &queued_param_);
  if (UCS_PTR_IS_ERR(request)) {
    slots_.Release(slot);
    return Refused(peer, UCS_PTR_STATUS(request));
  }
  ++peer->held;
  if (request == nullptr) OnComplete(nullptr, UCS_OK, slot);
  return SendOutcome::kAccepted;
}

// The token of a slot that was just accepted: UCX may be done with it, or the peer lost by now.
void UcxSender::Expect(UcxSlot* slot) {
  if (!slot->in_use) {
    sent_.push_back(slot->token);
  } else if (slot->peer->lost) {
    sent_.push_back(slot->token);
    slot->CutOff();
  } else {
    slot->reported = false;
  }
}

SendOutcome UcxSender::Refused(UcxPeer* peer, ucs_status_t status) {
  if (status != UCS_ERR_NO_RESOURCE) {
    Lose(peer, UcxError(api(), gwPeerLost, fmt::format("a send to rank {}", peer->rank), status));
    return SendOutcome::kLost;
  }
  refused_ = true;
  if (peer->used || peer->queued) return SendOutcome::kFull;
  const int64_t now_ns = clock_.NowNs();
  if (peer->refused_since_ns == 0) peer->refused_since_ns = now_ns;
  if (now_ns - peer->refused_since_ns > kFirstRefusalNs) {
    GW_LOG(kWarn, kNet, "ucx: rank {} does not answer, or fragments of {} bytes do not go at once",
           peer->rank, worker_.plan.fragment_bytes);
    peer->queued = true;
  }
  return SendOutcome::kFull;
}

void UcxSender::OnComplete(void* request, ucs_status_t /*status*/, void* slot_data) {
  // A failed send is reported as the peer's loss by OnEndpointError; the source is free either way.
  UcxSlot* slot = static_cast<UcxSlot*>(slot_data);
  UcxSender* sender = slot->peer->sender;
  --slot->peer->held;
  sender->ReportSent(slot);
  sender->slots_.Release(slot);
  if (request != nullptr) sender->api().ucp_request_free(request);
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
    std::memcpy(&header, slot.head.bytes + slot.head.size - sizeof header, sizeof header);
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
    if (slot.in_use && slot.peer == peer) CutOff(&slot);
  }
  lost_.emplace_back(peer->rank, std::move(cause).WithPeer(peer->rank));
  if (peer->endpoint != nullptr) to_close_.push_back(peer);
}

// send(slot, payload) of a frame that its receiver drops.
template <typename Send>
auto UcxSender::SendNothing(UcxPeer* peer, Send send) {
  static constexpr std::byte kNothing[64] = {};
  UcxSlot* slot = slots_.Take();
  FillSlot(layout_, rank_, {}, {kNothing, sizeof kNothing}, slot);
  slot->CutOff();
  slot->peer = peer;
  return send(slot, ConstBytes{kNothing, sizeof kNothing});
}

// Whether a watched peer is connected, or lost. Once a frame has gone UCX tells of what happens.
bool UcxSender::IsDecided(UcxPeer* peer) {
  if (peer->lost) return true;
  const ucs_status_t status = SendNothing(peer, [&](UcxSlot* slot, ConstBytes payload) {
    const ucs_status_t sent = TryShort(*peer, slot->head, payload);
    slots_.Release(slot);
    return sent;
  });
  // Other errors are its endpoint's own.
  if (status != UCS_ERR_NO_RESOURCE) return true;
  if (clock_.NowNs() - peer->watched_since_ns < connect_bound_ns_) return false;
  Lose(peer, Status(gwPeerLost, fmt::format("rank {} was not connected within {} s", peer->rank,
                                            connect_bound_ns_ / kNsPerSecond)));
  return true;
}

void UcxSender::AfterProgress() {
  std::erase_if(connecting_, [this](UcxPeer* peer) { return IsDecided(peer); });
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
  CountClosing(api().ucp_ep_close_nbx(std::exchange(peer->endpoint, nullptr), &param));
}

// An error is that of an endpoint which has failed meanwhile; it is gone all the same.
void UcxSender::CountClosing(ucs_status_ptr_t request) {
  if (request != nullptr && !UCS_PTR_IS_ERR(request)) ++closing_;
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

void UcxSender::Shutdown(int64_t bound_ns) {
  AfterProgress();
  ProgressUntil(bound_ns / 3 * 2, [this] {
    bool flushed = closing_ == 0;
    for (UcxPeer& peer : peers_) flushed = Flushed(&peer) && flushed;
    return flushed;
  });
  AfterProgress();
  for (UcxPeer& peer : peers_) {
    if (peer.endpoint != nullptr) Close(&peer);
  }
  ProgressUntil(bound_ns / 3, [this] { return closing_ == 0; });
}

// Whether what was accepted is out of UCX's hands; to be asked until it is.
bool UcxSender::Flushed(UcxPeer* peer) {
  if (peer->endpoint == nullptr || peer->lost) return true;
  if (peer->held > 0) return false;
  if (!std::exchange(peer->used, false)) return true;
  switch (worker_.plan.fabric) {
    case UcxFabric::kShared: return true;  // it is in the peer's queue
    case UcxFabric::kTcp:
      // UCX's flush would wait for the peer's UCX to answer, and the peer may be busy elsewhere or
      // on its way out. A connection has one outgoing segment, so once UCX takes another frame, all
      // before it is with the kernel.
      peer->used = SendNothing(peer) == SendOutcome::kFull;
      return !peer->used && peer->held == 0;
    case UcxFabric::kOther: break;
  }
  Flush(peer);
  return false;
}

void UcxSender::Flush(UcxPeer* peer) {
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = OnClosed;
  param.user_data = this;
  CountClosing(api().ucp_ep_flush_nbx(peer->endpoint, &param));
}

SendOutcome UcxSender::SendNothing(UcxPeer* peer) {
  return SendNothing(peer, [&](UcxSlot* slot, ConstBytes payload) {
    if (peer->queued) return SendQueued(peer, slot);
    const SendOutcome outcome = SendShort(peer, slot->head, payload);
    slots_.Release(slot);
    return outcome;
  });
}

template <typename Done>
void UcxSender::ProgressUntil(int64_t bound_ns, Done done) {
  const Deadline deadline = Deadline::After(clock_, bound_ns);
  while (!done() && !deadline.Expired(clock_)) {
    if (api().ucp_worker_progress(worker_.worker) == 0) sched_yield();
  }
}

}  // namespace gradwire
