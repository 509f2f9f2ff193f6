#include "transports/sim/sim_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>

#include "transports/sim/sim_end.h"

namespace gradwire {

StatusOr<std::shared_ptr<SimNetwork>> SimNetwork::Make(const SimOptions& o) {
  const bool fragments = o.fragment_bytes >= 64 && o.fragment_bytes % 64 == 0 && o.slots >= 1;
  const bool times = o.alpha_ns >= 0 && o.beta_ns_per_byte >= 0 && o.jitter_ns >= 0;
  if (o.world_size < 1 || o.world_size > 65535 || !fragments || !times) {
    return Status(gwInvalidArgument, "sim: an option is out of range",
                  "1 to 65535 ranks, fragments of a multiple of 64 bytes, slots, times >= 0");
  }
  return std::shared_ptr<SimNetwork>(new SimNetwork(o));
}

SimNetwork::SimNetwork(const SimOptions& options)
    : options_(options),
      random_(options.seed),
      ranks_(options.world_size),
      pairs_(static_cast<size_t>(options.world_size) * options.world_size) {
  for (Rank& rank : ranks_) rank.lost.resize(options.world_size);
}

StatusOr<std::unique_ptr<Transport>> SimNetwork::MakeEnd(int rank) {
  if (rank < 0 || rank >= options_.world_size) {
    return Status(gwInvalidArgument, fmt::format("sim: rank {} of {}", rank, options_.world_size));
  }
  if (ranks_[rank].taken)
    return Status(gwInvalidUsage, fmt::format("sim: rank {} has an end", rank));
  ranks_[rank].taken = true;
  const TransportCaps caps = {.max_fragment_bytes = options_.fragment_bytes,
                              .fragments_in_flight = options_.slots,
                              .detects_peer_death = options_.detect_ns >= 0};
  return std::unique_ptr<Transport>(
      std::make_unique<SimEnd>(shared_from_this(), rank, options_.world_size, caps));
}

std::vector<int> SimNetwork::RankOrder() {
  std::vector<int> order(options_.world_size);
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_.Below(i)]);
  return order;
}

// --- events

std::optional<int64_t> SimNetwork::NextEventNs() const {
  if (events_.empty()) return std::nullopt;
  return events_.top().at_ns;
}

bool SimNetwork::Step() {
  if (events_.empty()) return false;
  const Event event = events_.top();
  events_.pop();
  event_ns_ = std::max(event_ns_, event.at_ns);
  if (event_ns_ > clock_.NowNs()) clock_.Set(event_ns_);
  Apply(event);
  return true;
}

bool SimNetwork::AdvanceToNextEvent() {
  if (!Step()) return false;
  ApplyDue();
  return true;
}

void SimNetwork::ApplyDue() {
  while (!events_.empty() && events_.top().at_ns <= clock_.NowNs()) Step();
}

bool SimNetwork::HasNews(int rank) {
  ApplyDue();
  const Rank& mine = ranks_[rank];
  return !mine.sent.empty() || !mine.inbox.empty() || !mine.lost_news.empty() || mine.has_room;
}

void SimNetwork::Schedule(int64_t at_ns, EventKind kind, int32_t a, int32_t b) {
  events_.push({.at_ns = at_ns, .order = next_order_++, .kind = kind, .a = a, .b = b});
}

void SimNetwork::Apply(const Event& event) {
  history_.Add(event.at_ns).Add(event.kind).Add(event.a).Add(event.b);
  switch (event.kind) {
    case EventKind::kLeave: return Leave(event.a);
    case EventKind::kArrive: return Arrive(event.a);
    case EventKind::kEnter: return Enter(event.a);
    case EventKind::kKill: return Kill(event.a);
    case EventKind::kDetect: return Detect(event.a);
    case EventKind::kCut: return Cut(event.a, event.b, true);
    case EventKind::kHeal: return Cut(event.a, event.b, false);
  }
}

// --- the way of a fragment

SendOutcome SimNetwork::Send(const Outgoing& out) {
  ApplyDue();
  event_ns_ = clock_.NowNs();
  Rank& sender = ranks_[out.src];
  if (!sender.alive || sender.lost[out.dst]) return SendOutcome::kLost;
  Pair& pair = PairOf(out.src, out.dst);
  if (pair.in_flight == options_.slots) return SendOutcome::kFull;
  ++pair.in_flight;
  const int32_t id = Take();
  Fragment& fragment = fragments_[id];
  fragment.src = out.src;
  fragment.dst = out.dst;
  fragment.header = out.header;
  fragment.source = out.source;
  fragment.token = out.token;
  fragment.queued = true;
  sender.egress_free_ns = std::max(sender.egress_free_ns, clock_.NowNs()) + WireNs(fragment);
  Schedule(sender.egress_free_ns, EventKind::kLeave, id);
  return SendOutcome::kAccepted;
}

void SimNetwork::Leave(int32_t id) {
  Fragment& fragment = fragments_[id];
  if (!fragment.queued) return Free(id);  // cancelled, or its sender died
  fragment.queued = false;
  const int64_t bytes = fragment.source.size;
  fragment.data.resize(bytes);
  if (bytes > 0) std::memcpy(fragment.data.data(), fragment.source.data, bytes);
  ranks_[fragment.src].sent.push_back(fragment.token);
  history_.Add(fragment.header.message).Add(fragment.header.offset);
  Schedule(ArrivalNs(fragment), EventKind::kArrive, id);  // by the true header
  if (corrupt_.contains(left_)) Corrupt(&fragment, left_);
  ++left_;
}

void SimNetwork::Arrive(int32_t id) {
  const Fragment& fragment = fragments_[id];
  Rank& receiver = ranks_[fragment.dst];
  if (!receiver.alive) {
    ++stats_.dropped;
    return Free(id);
  }
  if (PairOf(fragment.src, fragment.dst).cut) return held_.push_back(id);
  const int64_t wire_ns = WireNs(fragment);
  receiver.ingress_free_ns = std::max(event_ns_, receiver.ingress_free_ns + wire_ns);
  Schedule(receiver.ingress_free_ns, EventKind::kEnter, id);
}

void SimNetwork::Enter(int32_t id) {
  Rank& receiver = ranks_[fragments_[id].dst];
  if (receiver.alive) return receiver.inbox.push_back(id);
  ++stats_.dropped;
  Free(id);
}

int SimNetwork::Drain(int rank, Sink* sink) {
  ApplyDue();
  Rank& mine = ranks_[rank];
  const std::vector<SendToken> sent = std::exchange(mine.sent, {});
  const std::vector<int32_t> inbox = std::exchange(mine.inbox, {});
  const std::vector<int> lost = std::exchange(mine.lost_news, {});
  mine.has_room = false;
  if (!mine.alive) {
    for (int32_t id : inbox) Free(id);
    return 0;
  }
  for (SendToken token : sent) sink->OnSent(token);
  int reports = static_cast<int>(sent.size() + lost.size());
  for (int32_t id : inbox) {
    const Fragment& fragment = fragments_[id];
    const bool late =
        mine.lost[fragment.src] && std::find(lost.begin(), lost.end(), fragment.src) == lost.end();
    if (late) {
      ++stats_.dropped;  // nothing comes from a peer whose loss was reported
    } else {
      ++reports;
      ++stats_.delivered;
      const int64_t bytes = static_cast<int64_t>(fragment.data.size());
      stats_.delivered_bytes += bytes;
      sink->OnFragment(fragment.src, fragment.header, {fragment.data.data(), bytes});
    }
    Free(id);
  }
  for (int peer : lost) {
    sink->OnPeerLost(peer, Status(gwPeerLost, "the simulated rank died"));
  }
  return reports;
}

int64_t SimNetwork::WireNs(const Fragment& fragment) const {
  const int64_t payload = fragment.queued ? fragment.source.size : fragment.data.size();
  return std::llround(slowdown_ * options_.beta_ns_per_byte *
                      static_cast<double>(payload + sizeof(FrameHeader)));
}

// One draw per message: its fragments leave in order and all take the same time, so they arrive in
// order without anybody remembering the message.
int64_t SimNetwork::ArrivalNs(const Fragment& f) {
  const FrameHeader& h = f.header;
  const uint64_t draw = Hasher()
                            .Add(options_.seed)
                            .Add(f.src)
                            .Add(f.dst)
                            .Add(h.epoch)
                            .Add(h.turn)
                            .Add(h.flags)
                            .Add(h.op_seq)
                            .Add(h.slice)
                            .Add(h.message)
                            .digest();
  const int64_t jitter_ns = options_.jitter_ns == 0 ? 0 : draw % options_.jitter_ns;
  int64_t at_ns = event_ns_ + options_.alpha_ns + jitter_ns;
  int64_t& last_ns = PairOf(f.src, f.dst).last_arrival_ns;
  if (!options_.reorder) at_ns = std::max(at_ns, last_ns);
  last_ns = at_ns;
  return at_ns;
}

int32_t SimNetwork::Take() {
  if (free_.empty()) {
    fragments_.emplace_back();
    return static_cast<int32_t>(fragments_.size()) - 1;
  }
  const int32_t id = free_.back();
  free_.pop_back();
  return id;
}

void SimNetwork::Free(int32_t id) {
  const Fragment& fragment = fragments_[id];
  Pair& pair = PairOf(fragment.src, fragment.dst);
  ranks_[fragment.src].has_room |= pair.in_flight == options_.slots;
  --pair.in_flight;
  free_.push_back(id);
}

// --- faults

// Point-to-point operations count on their own: their numbers say nothing about this one.
void SimNetwork::Cancel(int rank, uint32_t op_seq) {
  for (Fragment& fragment : fragments_) {
    const FrameHeader& h = fragment.header;
    if (!fragment.queued || fragment.src != rank || h.op_seq != op_seq) continue;
    if (h.flags & kFramePointToPoint) continue;
    fragment.queued = false;
    ranks_[rank].sent.push_back(fragment.token);
  }
}

void SimNetwork::KillNow(int rank) {
  ApplyDue();
  event_ns_ = clock_.NowNs();
  Kill(rank);
}

void SimNetwork::Kill(int rank) {
  if (!ranks_[rank].alive) return;
  ranks_[rank].alive = false;
  for (Fragment& fragment : fragments_) {
    if (fragment.src != rank || !fragment.queued) continue;
    fragment.queued = false;  // its memory may go with the rank
    ++stats_.dropped;
  }
  for (int32_t id : std::exchange(ranks_[rank].inbox, {})) Free(id);
  if (options_.detect_ns >= 0) {
    Schedule(event_ns_ + options_.detect_ns, EventKind::kDetect, rank);
  }
}

void SimNetwork::Detect(int dead) {
  for (int rank = 0; rank < options_.world_size; ++rank) {
    if (rank == dead || !ranks_[rank].alive) continue;
    ranks_[rank].lost[dead] = true;
    ranks_[rank].lost_news.push_back(dead);
  }
}

void SimNetwork::Cut(int a, int b, bool cut) {
  PairOf(a, b).cut = PairOf(b, a).cut = cut;
  // Now and not as events of their own: what arrives in this instant must stay behind what was
  // held.
  for (int32_t id : std::exchange(held_, {})) Arrive(id);
}

void SimNetwork::Corrupt(Fragment* fragment, int64_t index) {
  const uint64_t bits = 8 * (sizeof(FrameHeader) + fragment->data.size());
  const uint64_t bit = Hasher().Add(options_.seed).Add(index).digest() % bits;
  const uint64_t byte = bit / 8;
  std::byte* at = byte < sizeof(FrameHeader)
                      ? reinterpret_cast<std::byte*>(&fragment->header) + byte
                      : fragment->data.data() + (byte - sizeof(FrameHeader));
  *at ^= static_cast<std::byte>(1u << bit % 8);
  ++stats_.corrupted;
}

void SimNetwork::KillAt(int rank, int64_t at_ns) { Schedule(at_ns, EventKind::kKill, rank); }
void SimNetwork::CutAt(int a, int b, int64_t at_ns) { Schedule(at_ns, EventKind::kCut, a, b); }
void SimNetwork::HealAt(int a, int b, int64_t at_ns) { Schedule(at_ns, EventKind::kHeal, a, b); }
void SimNetwork::CorruptFragment(int64_t index) { corrupt_.insert(index); }

}  // namespace gradwire
