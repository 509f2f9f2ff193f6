#include "transports/loopback/loopback_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstring>
#include <utility>

#include "transports/loopback/loopback_hub.h"

namespace gradwire {
namespace {

class LoopbackTransport final : public Transport {
 public:
  LoopbackTransport(std::shared_ptr<LoopbackHub> hub, int rank)
      : hub_(std::move(hub)), rank_(rank), lost_(hub_->shape.world_size) {
    caps_ = {.max_fragment_bytes = hub_->shape.fragment_bytes,
             .fragments_in_flight = hub_->shape.slots,
             .detects_peer_death = true,
             .accepted_is_visible = true};
  }

  ~LoopbackTransport() override {
    hub_->Tell(rank_, [](LoopbackInbox& mine) { mine.closed = true; });
    for (int peer = 0; peer < hub_->shape.world_size; ++peer) {
      hub_->Tell(peer, [this](LoopbackInbox& theirs) { theirs.gone[rank_] = theirs.news = true; });
    }
  }

  const TransportCaps& caps() const override { return caps_; }
  std::string address() const override { return hub_->Address(rank_); }

  Status Connect(std::span<const std::string> addresses) override {
    return hub_->Connect(rank_, addresses);
  }

  SendOutcome TrySend(int peer, const FrameHeader& header, ConstBytes fragment,
                      SendToken token) override {
    assert(fragment.size <= caps_.max_fragment_bytes);
    LoopbackSlot* slot = nullptr;
    const SendOutcome outcome = FreeSlot(peer, &slot);
    if (outcome != SendOutcome::kAccepted) return outcome;
    if (!fragment.empty()) std::memcpy(slot + 1, fragment.data, fragment.size);
    Publish(peer, slot, header, fragment.size);
    sent_.push_back(token);
    return outcome;
  }

  int Progress(Sink* sink) override {
    int reports = static_cast<int>(sent_.size());
    for (SendToken token : sent_) sink->OnSent(token);
    sent_.clear();
    LoopbackInbox& mine = hub_->inboxes[rank_];
    {
      std::lock_guard lock(mine.mu);
      if (!mine.news) return reports;
      mine.news = false;
    }
    for (int peer = 0; peer < hub_->shape.world_size; ++peer) reports += Receive(peer, sink);
    return reports;
  }

  Status Wait(int64_t timeout_ns) override {
    // Further than any deadline of ours; longer ones would overflow the clock.
    const std::chrono::nanoseconds time(std::min(timeout_ns, int64_t{1} << 60));
    LoopbackInbox& mine = hub_->inboxes[rank_];
    std::unique_lock lock(mine.mu);
    if (sent_.empty()) mine.cv.wait_for(lock, time, [&] { return mine.news || mine.woken; });
    mine.woken = false;
    return Status::Ok();
  }

  void Wake() override {
    hub_->Tell(rank_, [](LoopbackInbox& mine) { mine.woken = true; });
  }

  // Nothing to do: what was accepted has been copied, and its tokens come with the next Progress.
  void Cancel(uint32_t /*op_seq*/) override {}

 private:
  // The slot that the next fragment to `peer` goes to; the same one until Publish.
  SendOutcome FreeSlot(int peer, LoopbackSlot** slot) {
    LoopbackInbox& theirs = hub_->inboxes[peer];
    LoopbackRing& ring = theirs.from[rank_];
    std::lock_guard lock(theirs.mu);
    if (theirs.closed) return SendOutcome::kLost;
    ring.sender_waits = ring.count == hub_->shape.slots;
    if (ring.sender_waits) return SendOutcome::kFull;
    *slot = hub_->SlotAt(ring, ring.head + ring.count);
    return SendOutcome::kAccepted;
  }

  void Publish(int peer, LoopbackSlot* slot, const FrameHeader& header, int64_t bytes) {
    slot->header = header;
    slot->bytes = bytes;
    hub_->Tell(peer, [this](LoopbackInbox& theirs) {
      ++theirs.from[rank_].count;
      theirs.news = true;
    });
  }

  // Delivers what `peer` has queued, and then its loss.
  int Receive(int peer, Sink* sink) {
    LoopbackInbox& mine = hub_->inboxes[rank_];
    LoopbackRing& ring = mine.from[peer];
    std::unique_lock lock(mine.mu);
    const int64_t count = ring.count;
    const bool lost = mine.gone[peer] && !lost_[peer];
    lock.unlock();
    for (int64_t i = 0; i < count; ++i) {
      const LoopbackSlot* slot = hub_->SlotAt(ring, ring.head + i);
      sink->OnFragment(peer, slot->header,
                       {reinterpret_cast<const std::byte*>(slot + 1), slot->bytes});
    }
    lock.lock();
    ring.head += count;
    ring.count -= count;
    const bool wake_sender = count > 0 && std::exchange(ring.sender_waits, false);
    lock.unlock();
    if (wake_sender) hub_->Tell(peer, [](LoopbackInbox& theirs) { theirs.news = true; });
    if (lost) sink->OnPeerLost(peer, Status(gwPeerLost, "its end of the loopback was closed"));
    if (lost) lost_[peer] = true;
    return static_cast<int>(count) + lost;
  }

  const std::shared_ptr<LoopbackHub> hub_;
  const int rank_;
  TransportCaps caps_;
  std::vector<SendToken> sent_;  // to be reported
  std::vector<bool> lost_;       // reported
};

}  // namespace

StatusOr<std::unique_ptr<Transport>> MakeLoopbackEnd(std::shared_ptr<LoopbackHub> hub, int rank) {
  if (rank < 0 || rank >= hub->shape.world_size) {
    return Status(gwInvalidArgument,
                  fmt::format("loopback: rank {} of {}", rank, hub->shape.world_size));
  }
  bool taken = false;
  hub->Tell(rank, [&](LoopbackInbox& mine) { taken = std::exchange(mine.taken, true); });
  if (taken) return Status(gwInvalidUsage, fmt::format("loopback: rank {} has an end", rank));
  return std::unique_ptr<Transport>(std::make_unique<LoopbackTransport>(std::move(hub), rank));
}

}  // namespace gradwire
