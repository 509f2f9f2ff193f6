// Ballot: what rank 0 has heard for the vote of the turn that runs. Sans threads and clock. What is
// heard costs the same for any number of ranks, but for votes that come again.
#ifndef GRADWIRE_RUNTIME_ENGINE_BALLOT_H_
#define GRADWIRE_RUNTIME_ENGINE_BALLOT_H_

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/engine/departures.h"
#include "runtime/engine/turn.h"
#include "transports/control/message.h"

namespace gradwire {

class Ballot {
 public:
  explicit Ballot(int world_size);

  // `rank` has submitted so many operations up to now, and may submit more. gwMismatch where
  // another rank has ended the step with fewer: what it does not submit can never be served.
  Status HearSubmitted(int rank, uint32_t submitted);
  // `body` as VoteFields has it. gwMismatch as above; gwDataCorrupt where the table is longer than
  // the body.
  Status HearVote(int rank, const VoteFields& fields, std::string body, int64_t now_ns);

  // All votes are there, and about the same operation.
  bool complete() const { return final_votes_ == std::ssize(votes_); }
  // All that can come are, for who has left votes no more: enough for a turn that is revoked.
  bool MayAbort(const Departures& departures) const;
  // Ranks whose vote is missing, ascending. One about a later operation than another rank's is to
  // come again: whoever votes against tells all ranks about which.
  std::vector<int> Missing() const;
  // When the last vote of this turn came; 0: none has.
  int64_t last_vote_ns() const { return last_vote_ns_; }

  // Of all votes; `revoked` as for DecideTurn. Who has left without one knows nothing of it.
  TurnResult Decide(uint16_t turn, const Status& revoked, NonFinitePolicy policy) const;
  // By rank, of votes in favour.
  const std::vector<std::string>& observations() const { return observations_; }
  // Forgets all but the tables.
  void BeginTurn();

 private:
  Status CheckSubmitted(int voter, int other) const;
  void Count(int rank);
  void CountAll();

  std::vector<std::optional<Vote>> votes_;
  // Of the votes: about the first operation in doubt, which is none at first.
  uint32_t in_doubt_ = kNoOpSeq;
  int64_t final_votes_ = 0;
  std::optional<int> fewest_;  // who has voted in favour with the fewest operations
  std::optional<int> most_;    // who has submitted most, as far as was heard
  std::vector<std::optional<uint32_t>> submitted_;  // the most that was heard
  std::vector<std::string> tables_;                 // as told last
  std::vector<std::string> observations_;
  int64_t last_vote_ns_ = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_ENGINE_BALLOT_H_
