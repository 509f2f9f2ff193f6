// SimNetwork: many ranks in one thread, in virtual time. Everything that happens is a function of
// the options, the seed and the order of calls, so a run that failed is replayed by running it
// again.
//
//   auto network = *SimNetwork::Make({.world_size = 4, .seed = seed});
//   ... network->MakeEnd(rank) for every rank, Connect as with any transport ...
//   while (!done()) {
//     bool busy = false;
//     for (int rank : network->RankOrder()) busy |= engine[rank].Poll();
//     if (!busy && !network->AdvanceToNextEvent()) Fail("deadlock");
//   }
//
// Time stands still while ranks work and moves to the next event when all are idle. Engines with
// timers of their own look at NextEventNs() and move clock() to whichever comes first; Progress
// applies what is due.
//
// Model, a port per rank and direction: fragments leave one after the other, beta per byte (header
// included), travel alpha plus the jitter of their message, and enter one after the other, beta per
// byte. Threads: one for everything.
#ifndef GRADWIRE_TRANSPORTS_SIM_SIM_NETWORK_H_
#define GRADWIRE_TRANSPORTS_SIM_SIM_NETWORK_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "base/rng.h"
#include "base/status.h"
#include "transports/transport.h"

namespace gradwire {

struct SimOptions {
  int world_size = 1;
  uint64_t seed = 1;
  int64_t alpha_ns = 5 * kNsPerUs;
  double beta_ns_per_byte = 0.1;
  int64_t jitter_ns = 0;               // added to alpha: uniform below this, one draw per message
  bool reorder = true;                 // messages of a pair may overtake each other through jitter
  int64_t detect_ns = 1 * kNsPerMs;    // from a death to OnPeerLost at the others; negative: never
  int32_t fragment_bytes = 64 * 1024;  // a multiple of 64
  int32_t slots = 8;                   // per ordered pair: accepted and not consumed yet
};

struct SimStats {
  int64_t delivered = 0;  // fragments handed to a Sink
  int64_t delivered_bytes = 0;
  int64_t corrupted = 0;
  int64_t dropped = 0;  // to or from the dead
};

class SimNetwork : public std::enable_shared_from_this<SimNetwork> {
 public:
  // gwInvalidArgument: a number is out of range.
  static StatusOr<std::shared_ptr<SimNetwork>> Make(const SimOptions& options);

  // The end of `rank`, once; keeps the network alive. To destroy it is to die. Its Wait returns at
  // once: only the scheduler knows when nothing else can happen. A source is read when its fragment
  // leaves, just before OnSent: who writes to it early sends what it wrote.
  StatusOr<std::unique_ptr<Transport>> MakeEnd(int rank);

  // Starts at 0. May be moved forward, between two rounds of polls.
  ManualClock& clock() { return clock_; }

  // When the next thing happens without a rank's doing; at or before now: it is due.
  std::optional<int64_t> NextEventNs() const;
  // Moves to the next event and applies it, false: there is none. Whether anything came of it is
  // for Progress to say.
  bool Step();
  // The same for all events of that instant.
  bool AdvanceToNextEvent();

  // Whether there is anything for the rank's end: to report, or room where it found none.
  bool HasNews(int rank);

  // All ranks in an order drawn anew, so that no rank is always first.
  std::vector<int> RankOrder();

  // Faults, for a time at or after now. A dead rank sends and receives nothing more; what has left
  // it still arrives.
  void KillAt(int rank, int64_t at_ns);
  // What would arrive between two ranks, either way, is held until HealAt; nobody is told.
  void CutAt(int a, int b, int64_t at_ns);
  void HealAt(int a, int b, int64_t at_ns);
  // What leaves or enters from now on takes so many times as long on the wire; latencies stay.
  void SlowDown(double factor) { slowdown_ = factor; }
  // Flips one bit, of header or payload, of the fragment that is the `index`-th to leave, from 0.
  void CorruptFragment(int64_t index);

  bool alive(int rank) const { return ranks_[rank].alive; }
  const SimStats& stats() const { return stats_; }
  // Over everything that happened, with its time: equal digests mean equal runs.
  uint64_t digest() const { return history_.digest(); }

 private:
  friend class SimEnd;
  enum class EventKind : uint8_t { kLeave, kArrive, kEnter, kKill, kDetect, kCut, kHeal };
  struct Event {
    int64_t at_ns;
    uint64_t order;  // of creation: breaks ties
    EventKind kind;
    int32_t a, b;  // fragment; rank; or two ranks
    bool operator>(const Event& o) const {
      return std::pair(at_ns, order) > std::pair(o.at_ns, o.order);
    }
  };
  struct Fragment {
    int src = 0, dst = 0;
    FrameHeader header;
    ConstBytes source;  // the sender's, until it leaves
    SendToken token = 0;
    std::vector<std::byte> data;  // from then on
    bool queued = false;          // accepted and not left
  };
  struct Rank {
    bool taken = false, alive = true;
    int64_t egress_free_ns = 0, ingress_free_ns = 0;
    std::vector<SendToken> sent;
    std::vector<int32_t> inbox;  // fragments
    std::vector<bool> lost;      // by peer: known here
    std::vector<int> lost_news;  // to be reported
    bool has_room = false;       // again, for a peer, since the last report
  };
  struct Pair {
    int32_t in_flight = 0;
    int64_t last_arrival_ns = 0;
    bool cut = false;
  };

  explicit SimNetwork(const SimOptions& options);

  // What the ends do.
  struct Outgoing {
    int src, dst;
    const FrameHeader& header;
    ConstBytes source;
    SendToken token;
  };
  SendOutcome Send(const Outgoing& out);
  int Drain(int rank, Sink* sink);
  void Cancel(int rank, uint32_t op_seq);
  void KillNow(int rank);

  void Schedule(int64_t at_ns, EventKind kind, int32_t a, int32_t b = 0);
  void Apply(const Event& event);
  void ApplyDue();
  void Leave(int32_t id);
  void Arrive(int32_t id);
  void Enter(int32_t id);
  void Kill(int rank);
  void Detect(int rank);
  void Cut(int a, int b, bool cut);
  void Corrupt(Fragment* fragment, int64_t index);
  int64_t ArrivalNs(const Fragment& fragment);
  int64_t WireNs(const Fragment& fragment) const;
  int32_t Take();
  void Free(int32_t id);
  Pair& PairOf(int src, int dst) { return pairs_[src * options_.world_size + dst]; }

  const SimOptions options_;
  ManualClock clock_;
  int64_t event_ns_ = 0;  // of the event being applied: the clock may have been moved past it
  RandomStream random_;
  Hasher history_;
  std::vector<Rank> ranks_;
  std::vector<Pair> pairs_;
  std::deque<Fragment> fragments_;  // a pool; stable addresses
  std::vector<int32_t> free_;
  std::deque<int32_t> held_;  // by a cut, in order of arrival
  std::set<int64_t> corrupt_;
  double slowdown_ = 1;
  int64_t left_ = 0;
  uint64_t next_order_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  SimStats stats_;
};

}  // namespace gradwire

#endif  // GRADWIRE_TRANSPORTS_SIM_SIM_NETWORK_H_
