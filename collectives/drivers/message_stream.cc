#include "collectives/drivers/message_stream.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"

namespace gradwire {
namespace {

// Only a defect lets it come to this.
constexpr int64_t kPatienceNs = 60'000'000'000;
constexpr int64_t kNapNs = 1'000'000;

}  // namespace

MessageStream::MessageStream(std::unique_ptr<Transport> transport, int rank, int world_size)
    : transport_(std::move(transport)), rank_(rank), peers_(world_size) {}

Status MessageStream::GroupStart() {
  if (open_) return Status(gwInvalidUsage, "a group in a group");
  open_ = true;
  ++groups_;
  return Status::Ok();
}

Status MessageStream::Send(int peer, ConstBytes bytes) {
  if (!open_ || bytes.empty()) return Status(gwInvalidUsage, "no group, or nothing to send");
  peers_[peer].outgoing.push_back({.bytes = bytes, .message = peers_[peer].sends++});
  return Status::Ok();
}

Status MessageStream::Recv(int peer, Bytes bytes) {
  if (!open_ || bytes.empty()) return Status(gwInvalidUsage, "no group, or nothing to receive");
  peers_[peer].incoming.push_back({.into = bytes, .message = peers_[peer].recvs++});
  return Status::Ok();
}

Status MessageStream::GroupEnd() {
  open_ = false;
  const Deadline deadline = Deadline::After(SteadyClock(), kPatienceNs);
  while (!Passed()) {
    const StatusOr<bool> moved = Advance();
    if (!moved.ok()) return moved.status();
    if (*moved) continue;
    if (deadline.Expired(SteadyClock())) return Status(gwTimeout, "nobody sends what is received");
    GW_RETURN_IF_ERROR(transport_->Wait(kNapNs));
  }
  return Status::Ok();
}

StatusOr<bool> MessageStream::Advance() {
  bool moved = transport_->Progress(this) > 0;
  for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer) {
    moved |= Push(peer);
    const StatusOr<bool> taken = Take(peer);
    if (!taken.ok()) return taken.status();
    moved |= *taken;
    const bool passed = peers_[peer].outgoing.empty() && peers_[peer].incoming.empty();
    if (!passed && !moved && !peers_[peer].lost.ok()) return peers_[peer].lost;
  }
  return moved;
}

bool MessageStream::Passed() const {
  return in_flight_ == 0 && std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
           return peer.outgoing.empty() && peer.incoming.empty();
         });
}

bool MessageStream::Push(int peer) {
  std::deque<Outgoing>& outgoing = peers_[peer].outgoing;
  if (outgoing.empty()) return false;
  Outgoing& first = outgoing.front();
  const int64_t fragment =
      std::min<int64_t>(transport_->caps().max_fragment_bytes, first.bytes.size - first.offered);
  const FrameHeader header = {.src = static_cast<uint16_t>(rank_),
                              .message = first.message,
                              .offset = static_cast<uint32_t>(first.offered),
                              .message_bytes = static_cast<uint32_t>(first.bytes.size),
                              .fragment_bytes = static_cast<uint32_t>(fragment)};
  const ConstBytes bytes = first.bytes.Sub(first.offered, fragment);
  if (transport_->TrySend(peer, header, bytes, /*token=*/0) != SendOutcome::kAccepted) return false;
  ++in_flight_;
  first.offered += fragment;
  if (first.offered == first.bytes.size) outgoing.pop_front();
  return true;
}

StatusOr<bool> MessageStream::Take(int peer) {
  std::deque<Incoming>& incoming = peers_[peer].incoming;
  if (incoming.empty()) return false;
  const Incoming& first = incoming.front();
  const auto found = arrived_.find({peer, first.message});
  if (found == arrived_.end()) return false;
  const Arrived& message = found->second;
  const auto size = static_cast<int64_t>(message.bytes.size());
  if (size != first.into.size) return Status(gwMismatch, "a message of another size");
  if (message.received < size) return false;
  std::memcpy(first.into.data, message.bytes.data(), size);
  arrived_.erase(found);
  incoming.pop_front();
  return true;
}

void MessageStream::OnFragment(int peer, const FrameHeader& header, ConstBytes fragment) {
  Arrived& message = arrived_[{peer, header.message}];
  message.bytes.resize(header.message_bytes);
  std::memcpy(message.bytes.data() + header.offset, fragment.data, fragment.size);
  message.received += fragment.size;
}

// One that has issued everything may leave: it is missed only by who still waits for it.
void MessageStream::OnPeerLost(int peer, const Status& cause) { peers_[peer].lost = cause; }

}  // namespace gradwire
