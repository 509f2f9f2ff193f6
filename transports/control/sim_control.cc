#include "transports/control/sim_control.h"

#include <algorithm>
#include <utility>

#include "base/byte_stream.h"
#include "base/hash.h"

namespace gradwire {

// One rank's ends of its links.
class SimControl::Links : public ControlLinks {
 public:
  Links(SimControl* sim, int rank) : sim_(sim), rank_(rank), inbox_(sim->options_.world_size) {}

  void Send(int peer, const std::string& wire) override {
    if (dead) return;
    const bool dies = sim_->DrawDeath();
    const bool goes_out = !dies || sim_->Draw() % 2 == 0;
    if (goes_out) sim_->Deliver(rank_, peer, wire);
    if (dies) sim_->Kill(rank_);
  }

  void Poll(LinkSink* sink) override {
    for (size_t peer = 0; peer < inbox_.size(); ++peer) {
      Inbox& in = inbox_[peer];
      while (!in.queue.empty() && in.queue.front().due_ns <= sim_->clock_->NowNs()) {
        const Delivery delivery = std::move(in.queue.front());
        in.queue.pop_front();
        if (!in.fenced) Report(static_cast<int>(peer), delivery, sink);
      }
    }
  }

  void Fence(int peer) override { inbox_[peer].fenced = true; }

  void Push(Delivery delivery) {
    Inbox& in = inbox_[delivery.from];
    if (!in.queue.empty()) delivery.due_ns = std::max(delivery.due_ns, in.queue.back().due_ns);
    in.queue.push_back(std::move(delivery));
  }

  int64_t NextNs() const {
    int64_t next = INT64_MAX;
    for (const Inbox& in : inbox_) {
      if (!in.queue.empty()) next = std::min(next, in.queue.front().due_ns);
    }
    return next;
  }

  bool dead = false;
  bool stopped = false;

 private:
  struct Inbox {
    std::deque<Delivery> queue;
    MessageReader reader;
    bool fenced = false;
  };

  void Report(int peer, const Delivery& delivery, LinkSink* sink) {
    if (delivery.wire.empty()) {
      return sink->OnLinkLost(peer, Status(gwPeerLost, "connection closed"));
    }
    // Through the wire format, so that the simulator covers it as well.
    ConstBytes bytes = TextBytes(delivery.wire);
    ControlMessage message;
    MessageReader& reader = inbox_[peer].reader;
    reader.AllowBodies();
    const StatusOr<bool> complete = reader.Next(&bytes, &message);
    if (!complete.ok()) return sink->OnLinkLost(peer, complete.status());
    if (*complete) sink->OnLinkMessage(peer, std::move(message));
  }

  SimControl* sim_;  // owns us
  int rank_;
  std::vector<Inbox> inbox_;  // by peer
};

class SimControl::Channel : public ControlChannel, private ControlSink {
 public:
  Channel(SimControl* sim, const ControlNodeOptions& options)
      : sim_(sim), links(sim, options.rank), node(options, &links, sim->clock_->NowNs()) {}

  int rank() const override { return node.rank(); }
  int world_size() const override { return node.world_size(); }
  Status SendTo(int to_rank, ControlMessage message) override {
    return node.SendTo(to_rank, std::move(message));
  }
  Status Broadcast(ControlMessage message) override { return node.Broadcast(std::move(message)); }
  void SetProgress(const ControlProgress& progress) override { node.SetProgress(progress); }
  void SetEpoch(uint32_t epoch) override { node.SetEpoch(epoch); }

  int Poll(ControlSink* sink) override {
    if (links.dead || links.stopped) return 0;
    out_ = sink;
    reports_ = 0;
    node.Step(sim_->clock_->NowNs(), this);
    out_ = nullptr;
    return reports_;
  }

 private:
  void OnControl(const ControlMessage& message) override {
    if (links.dead) return;
    ++reports_;
    out_->OnControl(message);
  }
  void OnRankLost(int rank, const Status& cause) override {
    if (links.dead) return;
    ++reports_;
    out_->OnRankLost(rank, cause);
  }

  SimControl* sim_;             // owns us
  ControlSink* out_ = nullptr;  // of the Poll that runs
  int reports_ = 0;

 public:
  Links links;
  ControlNode node;
};

SimControl::SimControl(const SimControlOptions& options, const Clock* clock)
    : options_(options), clock_(clock) {
  for (int r = 0; r < options.world_size; ++r) {
    channels_.push_back(
        std::make_unique<Channel>(this, ControlNodeOptions{.rank = r,
                                                           .world_size = options.world_size,
                                                           .job = options.job,
                                                           .liveness = options.liveness}));
  }
}

SimControl::~SimControl() = default;

ControlChannel* SimControl::channel(int rank) { return channels_[rank].get(); }
bool SimControl::alive(int rank) const { return !channels_[rank]->links.dead; }
void SimControl::Stop(int rank) { channels_[rank]->links.stopped = true; }
void SimControl::Continue(int rank) { channels_[rank]->links.stopped = false; }
void SimControl::SayBye(int rank, const Status& why) { channels_[rank]->node.SayBye(why); }
bool SimControl::MayLeave(int rank) const { return channels_[rank]->node.MayLeave(); }

void SimControl::Kill(int rank) {
  if (std::exchange(channels_[rank]->links.dead, true)) return;
  for (int peer = 0; peer < options_.world_size; ++peer) {
    const bool linked = peer != rank && (peer == 0 || rank == 0);
    if (linked) Deliver(rank, peer, std::string());
  }
}

void SimControl::Deliver(int from, int to, std::string wire) {
  Links& links = channels_[to]->links;
  if (links.dead) return;
  links.Push({clock_->NowNs() + DrawDelay(), from, std::move(wire)});
}

uint64_t SimControl::Draw() { return Hasher().Add(options_.seed).Add(++draws_).digest(); }

bool SimControl::DrawDeath() {
  if (options_.deaths_per_message <= 0) return false;
  constexpr double kUnit = 1.0 / 18446744073709551616.0;  // 2^-64
  return static_cast<double>(Draw()) * kUnit < options_.deaths_per_message;
}

int64_t SimControl::DrawDelay() {
  const auto span = static_cast<uint64_t>(options_.max_delay_ns - options_.min_delay_ns + 1);
  return options_.min_delay_ns + static_cast<int64_t>(Draw() % span);
}

int64_t SimControl::NextNs(int rank) const {
  const Channel& channel = *channels_[rank];
  if (channel.links.dead || channel.links.stopped) return INT64_MAX;
  return std::min(channel.links.NextNs(), channel.node.NextNs());
}

int64_t SimControl::NextNs() const {
  int64_t next = INT64_MAX;
  for (int r = 0; r < options_.world_size; ++r) next = std::min(next, NextNs(r));
  return next;
}

}  // namespace gradwire
