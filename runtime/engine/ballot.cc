#include "runtime/engine/ballot.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/wrapping.h"
#include "collectives/drivers/submit_mismatch.h"

namespace gradwire {

Ballot::Ballot(int world_size)
    : votes_(world_size), submitted_(world_size), tables_(world_size), observations_(world_size) {}

Status Ballot::HearSubmitted(int rank, uint32_t submitted) {
  // A heartbeat may be older than what a turn's end has told.
  std::optional<uint32_t>& most = submitted_[rank];
  if (!most || IsBefore(*most, submitted)) most = submitted;
  if (!most_ || IsBefore(*submitted_[*most_], *most)) most_ = rank;
  return fewest_ ? CheckSubmitted(*fewest_, rank) : Status();
}

Status Ballot::HearVote(int rank, const VoteFields& fields, std::string body, int64_t now_ns) {
  const bool in_favour = fields.ok != 0;
  last_vote_ns_ = now_ns;
  const bool again = votes_[rank].has_value();
  votes_[rank] = Vote{.fields = fields, .op_text = in_favour ? std::string() : body};
  if (again) {
    CountAll();
  } else {
    Count(rank);
  }
  if (in_favour) {
    if (fields.table_bytes > body.size())
      return Status(gwDataCorrupt, ErrorDetail{.message = "a vote cannot be read", .peer = rank});
    const bool nonfinite = (fields.nonfinite & kInResult) != 0;
    observations_[rank].clear();
    (nonfinite ? votes_[rank]->nonfinite_tensor : observations_[rank]) =
        body.substr(fields.table_bytes);
    body.resize(fields.table_bytes);
    if (!body.empty()) tables_[rank] = std::move(body);
  }
  return most_ ? CheckSubmitted(rank, *most_) : Status();
}

bool Ballot::MayAbort(const Departures& departures) const {
  // The bound that costs nothing first: few calls get past it.
  return final_votes_ + departures.left_ranks() >= std::ssize(votes_) &&
         std::ranges::all_of(Missing(), [&](int rank) { return departures.has_left(rank); });
}

// One vote more. Those about a later operation are to come again.
void Ballot::Count(int rank) {
  const VoteFields& vote = votes_[rank]->fields;
  const uint32_t first = FirstInDoubt(in_doubt_, vote.op_seq);
  if (std::exchange(in_doubt_, first) != first) final_votes_ = 0;
  final_votes_ += vote.op_seq == first ? 1 : 0;
  const bool is_fewest = !fewest_ || IsBefore(vote.submitted, votes_[*fewest_]->fields.submitted);
  if (vote.ok != 0 && is_fewest) fewest_ = rank;
}

void Ballot::CountAll() {
  in_doubt_ = kNoOpSeq;
  final_votes_ = 0;
  fewest_.reset();
  for (size_t r = 0; r < votes_.size(); ++r) {
    if (votes_[r]) Count(static_cast<int>(r));
  }
}

// A rank that has voted submits nothing more in its turn; one with fewer operations may still
// submit, or what was heard of it is old.
Status Ballot::CheckSubmitted(int voter, int other) const {
  const std::optional<Vote>& vote = votes_[voter];
  const std::optional<uint32_t>& most = submitted_[other];
  if (!vote || vote->fields.ok == 0 || !most || !IsBefore(vote->fields.submitted, *most))
    return Status();
  return SubmitMismatch(fmt::format("{} (rank {})", vote->fields.submitted, voter),
                        fmt::format("{} (rank {})", *most, other), other);
}

std::vector<int> Ballot::Missing() const {
  std::vector<int> ranks;
  for (size_t r = 0; r < votes_.size(); ++r) {
    if (!votes_[r] || votes_[r]->fields.op_seq != in_doubt_) ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

TurnResult Ballot::Decide(uint16_t turn, const Status& revoked, NonFinitePolicy policy) const {
  std::vector<Vote> votes;
  for (size_t r = 0; r < votes_.size(); ++r) {
    const bool is_final = votes_[r] && votes_[r]->fields.op_seq == in_doubt_;
    votes.push_back(is_final ? *votes_[r] : Vote());
    votes.back().table = &tables_[r];
  }
  return DecideTurn(turn, votes, revoked, policy);
}

void Ballot::BeginTurn() {
  std::fill(votes_.begin(), votes_.end(), std::nullopt);
  CountAll();
  most_.reset();
  std::fill(submitted_.begin(), submitted_.end(), std::nullopt);
  std::fill(observations_.begin(), observations_.end(), std::string());
  last_vote_ns_ = 0;
}

}  // namespace gradwire
