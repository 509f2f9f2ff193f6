#include "transports/faulty/faulty_transport.h"

#include <algorithm>
#include <utility>

#include "transports/frame/frame.h"

namespace gradwire {
namespace {

bool SameMessage(const FrameHeader& a, const FrameHeader& b) {
  return a.epoch == b.epoch && a.turn == b.turn && a.flags == b.flags && a.op_seq == b.op_seq &&
         a.slice == b.slice && a.message == b.message;
}

// Of a little-endian word: it has bit 31.
constexpr int64_t kSignByte = 3;

}  // namespace

// Between the inner transport and the driver's sink, during one Progress.
class FaultyTransport::Relay final : public Sink {
 public:
  Relay(FaultyTransport* owner, Sink* sink) : owner_(owner), sink_(sink) {}

  void OnFragment(int peer, const FrameHeader& header, ConstBytes fragment) override {
    if (owner_->lost_[peer]) return;
    ++reports;
    sink_->OnFragment(peer, header, fragment);
  }

  void OnSent(SendToken token) override {
    Accepted& accepted = owner_->accepted_[token];
    owner_->free_.push_back(token);
    accepted.copy.clear();
    if (!accepted.report) return;
    const bool late = owner_->Happens(owner_->plan_.late_sent);
    owner_->owed_.push_back({accepted.token, late ? owner_->DrawDue() : owner_->poll_});
  }

  void OnPeerLost(int peer, const Status& cause) override {
    if (owner_->lost_[peer]) return;
    owner_->lost_[peer] = true;
    owner_->DropHeldFor(peer);
    ++reports;
    sink_->OnPeerLost(peer, cause);
  }

  int reports = 0;

 private:
  FaultyTransport* const owner_;
  Sink* const sink_;
};

FaultyTransport::FaultyTransport(std::unique_ptr<Transport> inner, const FaultPlan& plan)
    : plan_(plan), random_(plan.seed), inner_(std::move(inner)), caps_(inner_->caps()) {
  // Held fragments need Progress to leave, and damaged ones must be noticed.
  caps_.accepted_is_visible = false;
  caps_.within_host = false;
}

Status FaultyTransport::Connect(std::span<const std::string> addresses) {
  held_for_.assign(addresses.size(), 0);
  lost_.assign(addresses.size(), false);
  return inner_->Connect(addresses);
}

SendOutcome FaultyTransport::TrySend(int peer, const FrameHeader& header, ConstBytes fragment,
                                     SendToken token) {
  if (lost_[peer]) return SendOutcome::kLost;
  const bool loses = accepted_fragments_ == plan_.lose_at && !std::exchange(is_one_lost_, true);
  if (loses || Happens(plan_.lose)) {
    Lose(peer, Status(gwPeerLost, "lost by the faulty transport's plan",
                      "Take lose and lose_at out of the plan"));
    return SendOutcome::kLost;
  }
  if (accepted_fragments_ == plan_.run_short_at && !std::exchange(is_one_lost_, true)) {
    Lose(peer, Status(gwSystemError, "nothing left by the faulty transport's plan"));
    return SendOutcome::kLost;
  }
  if (held_for_[peer] >= caps().fragments_in_flight || Happens(plan_.full)) {
    refused_ = true;
    return SendOutcome::kFull;
  }
  Outgoing out{.peer = peer,
               .header = header,
               .fragment = fragment,
               .message = header,
               .token = token,
               .report = true,
               .due = poll_};
  if (accepted_fragments_ == plan_.corrupt_at || Happens(plan_.corrupt)) Corrupt(&out);
  const bool corrupts_sealed = !sealed_corrupted_ && plan_.corrupt_sealed_at >= 0 &&
                               accepted_fragments_ >= plan_.corrupt_sealed_at &&
                               fragment.size > kSignByte;
  if (corrupts_sealed) CorruptSealed(&out);
  Outgoing again;
  const bool twice = Happens(plan_.duplicate);
  if (twice) {
    // The source belongs to the caller again once the first is sent.
    again = out;
    again.copy.assign(out.fragment.data, out.fragment.data + out.fragment.size);
    again.fragment = {again.copy.data(), out.fragment.size};
    again.report = false;
  }
  const bool delayed = Happens(plan_.delay);
  if (delayed) out.due = DrawDue();
  if (delayed || IsHeld(peer, header)) {
    Hold(std::move(out));
  } else if (const SendOutcome outcome = Forward(&out); outcome != SendOutcome::kAccepted) {
    return outcome;
  }
  if (twice) Hold(std::move(again));
  ++accepted_fragments_;
  sealed_corrupted_ |= corrupts_sealed;
  return SendOutcome::kAccepted;
}

int FaultyTransport::Progress(Sink* sink) {
  ++poll_;
  Release();
  Relay relay(this, sink);
  inner_->Progress(&relay);
  int reports = relay.reports;
  // The sink may not call us, so owed_ does not change under the loop.
  const auto due = std::stable_partition(owed_.begin(), owed_.end(),
                                         [this](const Sent& sent) { return sent.due > poll_; });
  for (auto sent = due; sent != owed_.end(); ++sent, ++reports) sink->OnSent(sent->token);
  owed_.erase(due, owed_.end());
  for (const auto& [peer, cause] : std::exchange(lost_news_, {})) {
    sink->OnPeerLost(peer, cause);
    ++reports;
  }
  return reports;
}

// Time passes by polls, so while anything waits for one there must be no sleep.
Status FaultyTransport::Wait(int64_t timeout_ns) {
  const bool busy = !held_.empty() || !owed_.empty() || !lost_news_.empty();
  if (std::exchange(refused_, false) || busy) return Status::Ok();
  return inner_->Wait(timeout_ns);
}

void FaultyTransport::Cancel(uint32_t op_seq) {
  std::erase_if(held_, [&](const Outgoing& out) {
    const bool other = out.message.op_seq != op_seq || out.message.flags & kFramePointToPoint;
    if (other) return false;
    Owe(out);
    --held_for_[out.peer];
    return true;
  });
  inner_->Cancel(op_seq);
}

bool FaultyTransport::IsHeld(int peer, const FrameHeader& message) const {
  return std::any_of(held_.begin(), held_.end(), [&](const Outgoing& out) {
    return out.peer == peer && SameMessage(out.message, message);
  });
}

void FaultyTransport::Corrupt(Outgoing* out) {
  constexpr int64_t kHeaderBits = 8 * sizeof(FrameHeader);
  const int64_t bit = random_.Below(kHeaderBits + 8 * out->fragment.size);
  const std::byte flip = static_cast<std::byte>(1u << bit % 8);
  if (bit < kHeaderBits) {
    reinterpret_cast<std::byte*>(&out->header)[bit / 8] ^= flip;
    return;
  }
  out->copy.assign(out->fragment.data, out->fragment.data + out->fragment.size);
  out->copy[(bit - kHeaderBits) / 8] ^= flip;
  out->fragment = {out->copy.data(), out->fragment.size};
}

void FaultyTransport::CorruptSealed(Outgoing* out) {
  out->copy.assign(out->fragment.data, out->fragment.data + out->fragment.size);
  out->copy[kSignByte] ^= std::byte{0x80};
  out->fragment = {out->copy.data(), out->fragment.size};
  SealFrame(&out->header, out->fragment);
}

// Moves `out` on unless the inner transport refuses.
SendOutcome FaultyTransport::Forward(Outgoing* out) {
  if (free_.empty()) {
    free_.push_back(accepted_.size());
    accepted_.emplace_back();
  }
  const SendToken id = free_.back();
  const SendOutcome outcome = inner_->TrySend(out->peer, out->header, out->fragment, id);
  if (outcome != SendOutcome::kAccepted) return outcome;
  free_.pop_back();
  // A moved vector keeps its memory, so the fragment stays where it is.
  accepted_[id] = {.copy = std::move(out->copy), .token = out->token, .report = out->report};
  return outcome;
}

void FaultyTransport::Hold(Outgoing out) {
  ++held_for_[out.peer];
  held_.push_back(std::move(out));
}

// Sends what is due; what stays keeps the rest of its message behind it.
void FaultyTransport::Release() {
  std::deque<Outgoing> stay;
  for (Outgoing& out : std::exchange(held_, {})) {
    const bool behind = std::any_of(stay.begin(), stay.end(), [&](const Outgoing& s) {
      return s.peer == out.peer && SameMessage(s.message, out.message);
    });
    SendOutcome outcome = SendOutcome::kFull;
    if (!behind && out.due <= poll_) outcome = Forward(&out);
    if (outcome == SendOutcome::kFull) {
      stay.push_back(std::move(out));
      continue;
    }
    if (outcome == SendOutcome::kLost) Owe(out);
    --held_for_[out.peer];
  }
  held_ = std::move(stay);
}

// The fragment will not be sent; its source is free.
void FaultyTransport::Owe(const Outgoing& out) {
  if (out.report) owed_.push_back({out.token, poll_});
}

void FaultyTransport::DropHeldFor(int peer) {
  held_for_[peer] = 0;
  std::erase_if(held_, [&](const Outgoing& out) {
    if (out.peer == peer) Owe(out);
    return out.peer == peer;
  });
}

void FaultyTransport::Lose(int peer, Status cause) {
  lost_[peer] = true;
  lost_news_.emplace_back(peer, std::move(cause));
  DropHeldFor(peer);
}

std::unique_ptr<Transport> MakeFaulty(std::unique_ptr<Transport> inner, const FaultPlan& plan) {
  return std::make_unique<FaultyTransport>(std::move(inner), plan);
}

}  // namespace gradwire
