#include "transports/control/control_node.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

namespace gradwire {
namespace {

std::vector<int> WatchedBy(const ControlNodeOptions& options) {
  if (options.rank != 0) return {0};
  std::vector<int> peers(options.world_size - 1);
  std::iota(peers.begin(), peers.end(), 1);
  return peers;
}

// The cause of a loss as every rank reports it. `seen_by` is the rank that noticed.
Status LossOf(int rank, int seen_by, const std::string& how) {
  return Status(gwPeerLost, ErrorDetail{.message = fmt::format("rank {} is lost: {}", rank, how),
                                        .hint = kLostHint,
                                        .rank = seen_by,
                                        .peer = rank});
}

bool RevokesEpoch(const ControlMessage& message) {
  const auto* revoke = message.get<RevokeFields>();
  return revoke != nullptr && revoke->scope == RevokeScope::kEpoch && revoke->culprit != kAllRanks;
}

bool BelongsToStart(const ControlMessage& message) {
  return message.get<HelloFields>() || message.get<ProofFields>() || message.get<RosterFields>() ||
         message.get<ReadyFields>();
}

}  // namespace

// Carries the caller's sink and the node through one Poll.
class ControlNode::LinkEvents : public LinkSink {
 public:
  LinkEvents(ControlNode* node, ControlSink* out) : node_(node), out_(out) {}
  void OnLinkMessage(int peer, ControlMessage message) override {
    node_->liveness_.Heard(peer, node_->now_ns_);
    node_->OnMessage(peer, message, out_);
  }
  void OnLinkLost(int peer, const Status& cause) override { node_->OnLinkLost(peer, cause, out_); }

 private:
  ControlNode* node_;  // outlives the Poll
  ControlSink* out_;   // likewise
};

ControlNode::ControlNode(const ControlNodeOptions& options, ControlLinks* links, int64_t now_ns)
    : options_(options),
      links_(links),
      liveness_(options.liveness, WatchedBy(options), now_ns),
      presence_(options.world_size, Presence::kHere),
      now_ns_(now_ns) {}

void ControlNode::Step(int64_t now_ns, ControlSink* out) {
  now_ns_ = now_ns;
  LinkEvents events(this, out);
  links_->Poll(&events);
  // Behind all that has come: the accused may have said BYE on its own link.
  for (const ControlMessage& revoke : std::exchange(revokes_, {})) {
    // Of two that accuse each other the first one is believed.
    if (presence_[revoke.src] != Presence::kLost) Condemn(revoke, out);
  }
  // Only now, so that what waited in the links while this process stood still counts as heard.
  const Liveness::Tick tick = liveness_.Advance(now_ns);
  for (const Liveness::Silent& s : tick.silent) {
    const std::string how = fmt::format("silent for {} ms", s.silent_ns / 1'000'000);
    OnLinkLost(s.peer, Status(gwPeerLost, how), out);
  }
  if (tick.heartbeat_due) SendHeartbeats();
}

ControlMessage ControlNode::Stamp(ControlMessage message, uint16_t dst) const {
  message.src = static_cast<uint16_t>(options_.rank);
  message.dst = dst;
  message.epoch = epoch_;
  message.job = options_.job;
  return message;
}

void ControlNode::SendToAllHere(const ControlMessage& message, int except) {
  const std::string wire = EncodeControl(message);
  for (int r = 1; r < options_.world_size; ++r) {
    if (r != except && Here(r)) links_->Send(r, wire);
  }
}

Status ControlNode::SendTo(int to_rank, ControlMessage message) {
  if (!IsRank(to_rank) || to_rank == options_.rank) {
    return Status(gwInvalidArgument, fmt::format("no control message to rank {}", to_rank));
  }
  if (static_cast<int64_t>(message.body.size()) > kMaxControlBodyBytes) {
    return Status(gwInvalidArgument, "control message over 64 KiB");
  }
  if (!Hears(to_rank)) return {};
  message = Stamp(std::move(message), static_cast<uint16_t>(to_rank));
  links_->Send(hub() ? to_rank : 0, EncodeControl(message));
  return {};
}

Status ControlNode::Broadcast(ControlMessage message) {
  if (static_cast<int64_t>(message.body.size()) > kMaxControlBodyBytes) {
    return Status(gwInvalidArgument, "control message over 64 KiB");
  }
  message = Stamp(std::move(message), kAllRanks);
  if (!hub()) {
    links_->Send(0, EncodeControl(message));
  } else if (RevokesEpoch(message)) {
    revokes_.push_back(std::move(message));
  } else {
    SendToAllHere(message, options_.rank);
  }
  return {};
}

void ControlNode::SendHeartbeats() {
  ControlMessage beat{.turn = progress_.turn, .fields = progress_.counters};
  for (int r = 0; r < (hub() ? options_.world_size : 1); ++r) {
    if (r == options_.rank || !Hears(r)) continue;
    links_->Send(r, EncodeControl(Stamp(beat, static_cast<uint16_t>(r))));
  }
}

Status ControlNode::CheckIncoming(int link, const ControlMessage& message) const {
  const bool wrong_src = hub() ? message.src != link : !IsRank(message.src);
  if (wrong_src || message.src == options_.rank) return Status(gwDataCorrupt, "wrong source");
  const bool for_me = message.dst == kAllRanks || message.dst == options_.rank;
  if (!for_me && !(hub() && IsRank(message.dst))) {
    return Status(gwDataCorrupt, "wrong destination");
  }
  if (message.job != options_.job) return Status(gwDataCorrupt, "message of another job");
  if (RevokesEpoch(message) && !IsRank(message.get<RevokeFields>()->culprit)) {
    return Status(gwDataCorrupt, "culprit is no rank");
  }
  if (BelongsToStart(message)) return Status(gwDataCorrupt, "start-up message after the start");
  return {};
}

void ControlNode::OnMessage(int link, const ControlMessage& message, ControlSink* out) {
  if (hub() && !Here(link)) return;  // fenced in the middle of a Poll
  const Status check = CheckIncoming(link, message);
  if (!check.ok()) {
    OnLinkLost(link, check, out);
  } else if (message.get<RevokeFields>()) {
    OnRevoke(message, out);
  } else if (message.get<ByeFields>()) {
    OnBye(message, out);
  } else {
    Relay(message, out);
  }
}

void ControlNode::Relay(const ControlMessage& message, ControlSink* out) {
  if (hub() && message.dst == kAllRanks) SendToAllHere(message, message.src);
  if (message.dst == kAllRanks || message.dst == options_.rank) return out->OnControl(message);
  if (Here(message.dst)) links_->Send(message.dst, EncodeControl(message));
}

void ControlNode::OnRevoke(const ControlMessage& message, ControlSink* out) {
  if (!RevokesEpoch(message)) return Relay(message, out);
  const int culprit = message.get<RevokeFields>()->culprit;
  if (message.epoch < epoch_) return;  // about a membership that was already left behind
  if (hub()) return revokes_.push_back(message);
  Lose(culprit, DecodeStatus(message.body), out);
  out->OnControl(message);
}

void ControlNode::Condemn(const ControlMessage& revoke, ControlSink* out) {
  const int culprit = revoke.get<RevokeFields>()->culprit;
  if (!Here(culprit)) return;  // everybody was told, or it left in peace
  Status cause = DecodeStatus(revoke.body);
  if (cause.code() != gwPeerLost) {
    cause = LossOf(culprit, revoke.src,
                   fmt::format("reported by rank {}: {}", revoke.src, cause.detail().message));
  }
  ControlMessage verdict = Stamp(revoke, kAllRanks);
  verdict.body = EncodeStatus(cause);
  Lose(culprit, cause, out);
  SendToAllHere(verdict, options_.rank);
  // The culprit as well: it may only have stood still, and must learn that it is out.
  if (culprit != 0) {
    links_->Send(culprit, EncodeControl(verdict));
    links_->Fence(culprit);
  }
  out->OnControl(verdict);
}

void ControlNode::OnLinkLost(int peer, const Status& cause, ControlSink* out) {
  if (!Here(peer)) return;
  const Status loss = LossOf(peer, options_.rank, cause.detail().message);
  if (!hub()) return Lose(peer, loss, out);
  const RevokeFields fields{.culprit = static_cast<uint16_t>(peer), .scope = RevokeScope::kEpoch};
  Condemn(Stamp({.turn = progress_.turn, .fields = fields, .body = EncodeStatus(loss)}, kAllRanks),
          out);
}

void ControlNode::Lose(int rank, const Status& cause, ControlSink* out) {
  if (!Here(rank)) return;
  presence_[rank] = Presence::kLost;
  liveness_.Forget(rank);
  if (first_loss_.ok() && !(leaving_ && rank == 0)) first_loss_ = cause;
  if (!leaving_) out->OnRankLost(rank, cause);
}

void ControlNode::OnBye(const ControlMessage& message, ControlSink* out) {
  const int leaver = message.src;
  if (hub()) links_->Send(leaver, EncodeControl(Stamp({.fields = ByeFields{}}, message.src)));
  if (message.get<ByeFields>()->code != 0) {
    const Status why = DecodeStatus(message.body);
    return OnLinkLost(leaver, Status(gwPeerLost, "it left: " + why.detail().message), out);
  }
  if (!Here(leaver)) return;
  presence_[leaver] = Presence::kLeft;
  liveness_.Forget(leaver);
  Relay(message, out);
}

void ControlNode::SayBye(const Status& why) {
  if (leaving_) return;
  leaving_ = true;
  ControlMessage bye{.fields = ByeFields{.code = why.code()}};
  if (!why.ok()) bye.body = EncodeStatus(why);
  bye = Stamp(std::move(bye), kAllRanks);
  if (hub()) return SendToAllHere(bye, options_.rank);
  links_->Send(0, EncodeControl(bye));
}

bool ControlNode::MayLeave() const {
  if (!hub()) return !Here(0);
  for (int r = 1; r < options_.world_size; ++r) {
    if (Here(r)) return false;
  }
  return true;
}

std::string ControlNode::WhoStays() const {
  if (!hub()) return "rank 0 does not answer";
  std::vector<int> here;
  for (int r = 1; r < options_.world_size; ++r) {
    if (Here(r)) here.push_back(r);
  }
  return fmt::format("rank{} {} {} not left", here.size() == 1 ? "" : "s", fmt::join(here, ", "),
                     here.size() == 1 ? "has" : "have");
}

}  // namespace gradwire
