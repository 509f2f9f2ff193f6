#include "transports/shm/shm_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "transports/shm/shm_memory.h"

namespace gradwire {
namespace {

// Four to a queue fit a second-level cache beside the data itself; larger or more of them are
// slower where it is 1 MiB, smaller ones take more turns where ranks share cores
// (docs/performance.md).

constexpr int32_t kFragmentBytes = 128 << 10;
constexpr int32_t kSlots = 4;

class ShmTransport final : public Transport {
 public:
  ShmTransport(ShmInbox inbox, const ShmShape& shape, int rank)
      : inbox_(std::move(inbox)), shape_(shape), rank_(rank), peers_(shape.world_size) {
    caps_ = {.max_fragment_bytes = shape.fragment_bytes,
             .fragments_in_flight = shape.slots,
             .accepted_is_visible = true,
             .within_host = true};
  }

  ~ShmTransport() override {
    for (Peer& peer : peers_) {
      if (!peer.connected) continue;
      peer.inbox.queue(rank_).gone.store(1, std::memory_order_release);
      peer.inbox.Ring();
    }
  }

  const TransportCaps& caps() const override { return caps_; }
  std::string address() const override { return EncodeShmAddress(inbox_.address()); }

  Status Connect(std::span<const std::string> addresses) override {
    if (std::ssize(addresses) != shape_.world_size) {
      return Status(gwInvalidArgument, fmt::format("shm: {} addresses for {} ranks",
                                                   addresses.size(), shape_.world_size));
    }
    for (int peer = 0; peer < shape_.world_size; ++peer) {
      if (peer == rank_) continue;
      Status opened = Open(addresses[peer], &peers_[peer].inbox);
      if (!opened.ok()) return std::move(opened).WithPeer(peer);
      peers_[peer].connected = true;
    }
    return Status::Ok();
  }

  SendOutcome TrySend(int peer, const FrameHeader& header, ConstBytes fragment,
                      SendToken token) override {
    assert(peer != rank_ && fragment.size <= caps_.max_fragment_bytes);
    const SendOutcome outcome = CheckRoom(peer);
    if (outcome != SendOutcome::kAccepted) return outcome;
    if (!fragment.empty()) std::memcpy(Payload(peer), fragment.data, fragment.size);
    Publish(peer, header, fragment.size);
    sent_.push_back(token);
    return outcome;
  }

  int Progress(Sink* sink) override {
    int reports = static_cast<int>(sent_.size());
    for (SendToken token : sent_) sink->OnSent(token);
    sent_.clear();
    for (int peer = 0; peer < shape_.world_size; ++peer) {
      if (peer != rank_) reports += Receive(peer, sink);
    }
    return reports;
  }

  Status Wait(int64_t timeout_ns) override {
    inbox_.Sleep(timeout_ns, [this] { return HasNews(); });
    (void)woken_.exchange(false);
    return Status::Ok();
  }

  void Wake() override {
    woken_.store(true);
    inbox_.Wake();
  }

  // Nothing to do: what was accepted has been copied, and its tokens come with the next Progress.
  void Cancel(uint32_t /*op_seq*/) override {}

 private:
  struct Peer {
    ShmInbox inbox;
    bool connected = false;
    bool lost = false;      // reported
    bool refused = false;   // the last send found no room
    uint64_t sent = 0;      // to it
    uint64_t taken = 0;     // of these by it, when we looked last
    uint64_t received = 0;  // from it
  };

  Status Open(const std::string& encoded, ShmInbox* inbox) {
    StatusOr<ShmAddress> address = DecodeShmAddress(encoded);
    if (!address.ok()) return address.status();
    if (address->shape != shape_) {
      return Status(gwTransportUnavailable, "shm: the ranks have fragments of different sizes",
                    "Set fragment_bytes alike on all ranks");
    }
    StatusOr<ShmInbox> opened = ShmInbox::Open(*address);
    if (!opened.ok()) return opened.status();
    *inbox = std::move(*opened);
    return Status::Ok();
  }

  bool HasRoom(Peer& to) const {
    const uint64_t slots = shape_.slots;
    if (to.sent - to.taken < slots) return true;
    to.taken = to.inbox.queue(rank_).taken.load(std::memory_order_acquire);
    return to.sent - to.taken < slots;
  }

  // Whether the next fragment has a slot. If not, the receiver will ring once it has.
  SendOutcome CheckRoom(int peer) {
    Peer& to = peers_[peer];
    if (to.lost || Gone(peer)) return SendOutcome::kLost;
    std::atomic<uint32_t>& waits = to.inbox.queue(rank_).sender_waits;
    if (!HasRoom(to)) {
      waits.store(1);
      std::atomic_thread_fence(std::memory_order_seq_cst);  // with the one in TellWaitingSender
      to.refused = true;
      if (!HasRoom(to)) return SendOutcome::kFull;
    }
    StopWaiting(&to);
    return SendOutcome::kAccepted;
  }

  // Only we write it: the receiver could clear it between our setting it and our sleep.
  void StopWaiting(Peer* to) {
    if (std::exchange(to->refused, false))
      to->inbox.queue(rank_).sender_waits.store(0, std::memory_order_relaxed);
  }

  bool Gone(int peer) const { return inbox_.queue(peer).gone.load(std::memory_order_acquire) != 0; }

  ShmSlot& NextSlot(int peer) { return peers_[peer].inbox.slot(rank_, peers_[peer].sent); }
  std::byte* Payload(int peer) { return peers_[peer].inbox.payload(NextSlot(peer)); }

  void Publish(int peer, const FrameHeader& header, int64_t bytes) {
    ShmSlot& slot = NextSlot(peer);
    slot.header = header;
    slot.bytes = bytes;
    slot.number.store(++peers_[peer].sent, std::memory_order_release);
    peers_[peer].inbox.Ring();
  }

  // Delivers what `peer` has queued, and then its loss.
  int Receive(int peer, Sink* sink) {
    Peer& from = peers_[peer];
    if (from.lost) return 0;
    const bool gone = Gone(peer);  // before the last look: what it sent comes first
    const uint64_t before = from.received;
    ShmQueue& queue = inbox_.queue(peer);
    // No more than were there to begin with, or a fast sender would keep us from the others.
    for (int i = 0; i < shape_.slots && inbox_.HasFragment(peer, from.received); ++i) {
      ShmSlot& slot = inbox_.slot(peer, from.received);
      // Copies: the peer could change them between a check and their use.
      const int64_t bytes = slot.bytes;
      const FrameHeader header = slot.header;
      if (bytes < 0 || bytes > shape_.fragment_bytes) {
        return Lose(peer, Status(gwDataCorrupt, "its shared memory is damaged"), sink);
      }
      sink->OnFragment(peer, header, {inbox_.payload(slot), bytes});
      queue.taken.store(++from.received, std::memory_order_release);
    }
    const int delivered = static_cast<int>(from.received - before);
    if (delivered > 0) TellWaitingSender(queue, peer);
    if (!gone || inbox_.HasFragment(peer, from.received)) return delivered;
    return delivered + Lose(peer, Status(gwPeerLost, "it has closed its end"), sink);
  }

  void TellWaitingSender(ShmQueue& queue, int peer) {
    std::atomic_thread_fence(std::memory_order_seq_cst);  // with the one in CheckRoom
    const bool waits = queue.sender_waits.load(std::memory_order_relaxed) != 0;
    if (waits && peers_[peer].connected) peers_[peer].inbox.Ring();
  }

  int Lose(int peer, const Status& cause, Sink* sink) {
    peers_[peer].lost = true;
    sink->OnPeerLost(peer, cause);
    return 1;
  }

  bool HasNews() {
    if (!sent_.empty() || woken_.load()) return true;
    for (int peer = 0; peer < shape_.world_size; ++peer) {
      if (peer == rank_ || peers_[peer].lost) continue;
      if (inbox_.HasFragment(peer, peers_[peer].received) || Gone(peer)) return true;
      // Told once: what was refused may have been given up since.
      if (peers_[peer].refused && HasRoom(peers_[peer])) {
        StopWaiting(&peers_[peer]);
        return true;
      }
    }
    return false;
  }

  const ShmInbox inbox_;
  const ShmShape shape_;
  const int rank_;
  TransportCaps caps_;
  std::vector<Peer> peers_;
  std::vector<SendToken> sent_;  // to be reported
  std::atomic<bool> woken_ = false;
};

}  // namespace

StatusOr<std::unique_ptr<Transport>> MakeShmTransport(const TransportOptions& options) {
  if (options.rank < 0 || options.rank >= options.world_size) {
    return Status(gwInvalidArgument,
                  fmt::format("shm: rank {} of {}", options.rank, options.world_size));
  }
  if (!options.all_ranks_on_host) {
    return Status(gwTransportUnavailable, "shm: the ranks are on several hosts",
                  "Set transport=tcp or ucx, or leave it to `auto`");
  }
  const int64_t asked =
      options.fragment_bytes > 0 ? AlignUp(options.fragment_bytes) : kFragmentBytes;
  const ShmShape shape = {.world_size = options.world_size,
                          .slots = kSlots,
                          .fragment_bytes = static_cast<int32_t>(asked)};
  StatusOr<ShmInbox> inbox = ShmInbox::Create(shape);
  if (!inbox.ok()) return inbox.status();
  return std::unique_ptr<Transport>(
      std::make_unique<ShmTransport>(std::move(*inbox), shape, options.rank));
}

}  // namespace gradwire
