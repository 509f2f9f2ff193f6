// Departures: which ranks have left or are about to, and which connections are lost, as one rank
// hears of them. Sans threads and clock. A rank may leave while others still work; how long they
// may wait for it then is decided here, what becomes of them by EngineCore.
#ifndef GRADWIRE_RUNTIME_ENGINE_DEPARTURES_H_
#define GRADWIRE_RUNTIME_ENGINE_DEPARTURES_H_

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace gradwire {

class Departures {
 public:
  // What a rank sent before it left arrives within this, where its bytes need no network or its
  // connection has ended behind them: before it nobody who has left is missed.
  static constexpr int64_t kLeftNs = kNsPerSecond;

  struct Options {
    int world_size = 1;
    bool within_host = false;  // the transport's bytes need no network
    int64_t silence_ns = 0;    // a network may stall as long as a rank may be silent
  };
  // That the transport has told.
  struct Loss {
    int peer;
    Status cause;
    int64_t ns;            // when
    bool accused = false;  // for the caller: rank 0 was asked to judge it
  };

  explicit Departures(const Options& options);

  // Once for each of its connections.
  void NoteLost(int peer, Status cause, int64_t now_ns);
  // It submits nothing more, and is about to leave.
  void HearThrough(int rank) { through_[rank] = true; }
  // It has left, for good.
  void HearBye(int rank);

  bool has_left(int rank) const { return left_[rank]; }
  int64_t left_ranks() const { return left_ranks_; }
  bool is_through(int rank) const { return through_[rank]; }
  // O(world_size).
  bool all_through() const;
  // Of a rank that has not left, the one noted first; null: there is none. Valid until the next
  // NoteLost.
  Loss* FirstUnexplainedLoss();

  // Who has stood still for `still_ns` for want of this rank waits in vain: it has left, and what
  // it sent before cannot be under way any more.
  bool IsOverdue(int rank, int64_t still_ns) const;
  // Such a wait has no end for want of rank 0, whomever it is for: once that is gone nobody hears
  // of the others any more.
  bool IsHubGone(int64_t still_ns) const;

 private:
  const Options options_;
  std::vector<bool> left_, through_;  // by rank
  int64_t left_ranks_ = 0;
  std::vector<Loss> losses_;
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_ENGINE_DEPARTURES_H_
