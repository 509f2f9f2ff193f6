// Whom an EngineCore waits for in vain, and what it says and does while nothing moves.
#include "runtime/engine/engine_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "collectives/drivers/submit_mismatch.h"

namespace gradwire {
namespace {

// Two lanes of each rank are looked at for messages that stand still: not at every poll.
constexpr int64_t kCheckMessagesNs = kNsPerMs;
// Rank 0 counts no more often that it lives: signs of life carry it.
constexpr int64_t kCountLookNs = 10 * kNsPerMs;

}  // namespace

void EngineCore::CheckTimeouts() {
  if (CheckLostPeers()) return;
  // A revoked turn waits for its result, also where nothing of it was begun here.
  const bool waits = !pipeline_.empty() || !ends_.empty() || this_turn_.revoked;
  if (!waits && ballot_.last_vote_ns() == 0) return;
  const int64_t now_ns = clock_->NowNs();
  const int64_t still_ns = still_.StillNs(now_ns);
  if (still_.TakeNoteDue(now_ns)) NoteWaiting();
  if (still_.TakeStandstillDue(now_ns)) TellStandstill();
  if (CheckLeft(still_ns) || CheckOperationTime(still_ns) || CheckVoteTime(now_ns)) return;
  if (options_.rank != 0) return CheckHub(now_ns);
  CountLook(now_ns);
}

// Rank 0's, for CheckHub of the others.
void EngineCore::CountLook(int64_t now_ns) {
  if (now_ns - last_look_ns_ < kCountLookNs) return;
  last_look_ns_ = now_ns;
  ++looks_;
  TellProgress();
}

// Rank 0 ends a turn in time, whatever the others do, as long as its engine runs.
void EngineCore::CheckHub(int64_t now_ns) {
  if (!this_turn_.voted || this_turn_.result || options_.op_timeout_ns <= 0) return;
  const int64_t still_ns = now_ns - std::max(hub_.StillSince(now_ns), still_.since_ns());
  if (still_ns <= options_.op_timeout_ns + options_.abort_timeout_ns + options_.silence_ns) return;
  EndEpochForAll(Status(
      gwTimeout,
      {.message = fmt::format("rank 0 has not moved for {} ms, though its process lives: the "
                              "outcome of the step is missing",
                              still_ns / kNsPerMs),
       .hint = "Look at what it does, as with a debugger, then restart the job",
       .peer = 0}));
}

// Calls that nobody will meet end; the rest of the communicator has no part in them.
void EngineCore::CheckMessages() {
  if (messages_.idle()) return;
  const int64_t now_ns = clock_->NowNs();
  if (now_ns < next_messages_check_ns_) return;
  next_messages_check_ns_ = now_ns + kCheckMessagesNs;
  messages_.CheckTimes();
  for (int peer = 0; peer < options_.world_size; ++peer) {
    const int64_t still_ns = messages_.StillNs(peer);
    const bool is_overdue = departures_.IsOverdue(peer, still_ns);
    if (!is_overdue && !departures_.IsHubGone(still_ns)) continue;
    const int gone = is_overdue ? peer : 0;
    messages_.FailPeer(
        peer, Status(gwPeerLost, {.message = fmt::format("rank {} has left the communicator", gone),
                                  .hint = "It must call what meets this before it finalizes, and "
                                          "rank 0 finalize last",
                                  .peer = gone}));
  }
}

void EngineCore::NoteWaiting() {
  if (const std::optional<WaitingRun> run = driver_.Waiting()) notes_.Waiting(turn_, *run);
}

// Rank 0 hears it sooner than by signs of life, which come again where it has not begun the
// operation yet.
void EngineCore::TellStandstill() {
  const HeartbeatFields mine = MyProgress();
  if (options_.rank != 0 && !this_turn_.revoked && mine.signature != 0)
    (void)control_->SendTo(0, {.turn = turn_, .fields = mine});
}

// 0: this turn has no operation of that number, or has had it long ago, or it has not begun, which
// may still change what ranks must agree on.
uint64_t EngineCore::SignatureOf(uint64_t op_seq) const {
  const Operation* operation = pipeline_.Find(op_seq);
  return operation != nullptr && pipeline_.HasBegun(*operation) ? operation->signature : 0;
}

// Also where no frame of it has come here, nor will.
void EngineCore::CheckAlike(int peer, const HeartbeatFields& heard) {
  if (heard.signature == 0) return;
  const uint64_t mine = SignatureOf(heard.op_seq);
  if (mine == 0 || mine == heard.signature) return;
  RevokeTurn(OperationMismatch(heard.op_seq).WithPeer(peer), heard.op_seq, true);
}

// -1: nobody.
int EngineCore::WhoLeftTooEarly(int64_t still_ns) const {
  const int awaited = driver_.AwaitedPeer();
  if (awaited >= 0 && departures_.IsOverdue(awaited, still_ns)) return awaited;
  if (awaited < 0 && this_turn_.voted && options_.rank != 0 && departures_.has_left(0)) return 0;
  if (awaited < 0 && this_turn_.voted && options_.rank == 0 && !this_turn_.revoked) {
    for (int r : ballot_.Missing()) {
      if (departures_.has_left(r)) return r;
    }
  }
  return departures_.IsHubGone(still_ns) ? 0 : -1;
}

// Ranks that have left matter only to who still needs something of theirs; who waits for that one
// in turn is told.
bool EngineCore::CheckLeft(int64_t still_ns) {
  const int peer = still_ns > Departures::kLeftNs ? WhoLeftTooEarly(still_ns) : -1;
  if (peer < 0) return false;
  EndEpochForAll(MissedAs(peer));
  return true;
}

// Where it is missed only because something went wrong before, that is what must be mended.
Status EngineCore::MissedAs(int peer) const {
  const std::string gone = fmt::format("rank {} has left the communicator", peer);
  if (!this_turn_.revoked) {
    return Status(gwPeerLost, {.message = gone,
                               .hint = "All ranks must submit the same operations, and end the "
                                       "same steps, before they finalize",
                               .peer = peer});
  }
  ErrorDetail detail = this_turn_.revoked->detail();
  detail.message = fmt::format("{} amid an abort: {}", gone, detail.message);
  detail.peer = peer;
  return Status(gwPeerLost, std::move(detail));
}

// Whoever this rank awaits may wait in turn: rank 0 names who has not called the operation, if the
// votes tell (turn.cc).
bool EngineCore::CheckOperationTime(int64_t still_ns) {
  const Operation* oldest = pipeline_.oldest();
  if (this_turn_.revoked || oldest == nullptr) return false;
  const int64_t bound_ns = oldest->patience.ns > 0 ? oldest->patience.ns : options_.op_timeout_ns;
  if (bound_ns <= 0 || still_ns <= bound_ns) return false;
  RevokeTurn(
      Status(gwTimeout, {.message = fmt::format("no progress for {} ms: {}", still_ns / kNsPerMs,
                                                driver_.DescribeWaiting()),
                         .hint = fmt::format("Look at what that rank does, or raise {}",
                                             oldest->patience.variable),
                         .peer = driver_.AwaitedPeer()}),
      oldest->op_seq, true);
  return true;
}

// Rank 0 hears all votes, so it alone can tell who keeps the others waiting, itself included.
bool EngineCore::CheckVoteTime(int64_t now_ns) {
  if (options_.op_timeout_ns <= 0 || ballot_.last_vote_ns() == 0 || this_turn_.result) return false;
  const int64_t still_ns = now_ns - std::max(ballot_.last_vote_ns(), still_.since_ns());
  if (this_turn_.revoked) return CheckVoteAgainst(still_ns);
  if (still_ns <= options_.op_timeout_ns) return false;
  const std::vector<int> silent = ballot_.Missing();
  RevokeTurn(Status(gwTimeout,
                    {.message = fmt::format("rank {} has not ended the step, others have {} ms ago",
                                            fmt::join(silent, ", "), still_ns / kNsPerMs),
                     .hint = "Look at what that rank does, or raise GRADWIRE_OP_TIMEOUT_MS",
                     .peer = silent.front()}),
             kNoOpSeq, true);
  return true;
}

// Engines vote on a revoked step at once, whatever their callers do: one that does not is stuck,
// and there is nothing left to abort.
bool EngineCore::CheckVoteAgainst(int64_t still_ns) {
  if (still_ns <= options_.op_timeout_ns + options_.abort_timeout_ns) return false;
  const std::vector<int> silent = ballot_.Missing();
  EndEpochForAll(
      Status(gwTimeout,
             {.message = fmt::format("the vote of rank {} on an aborted step is missing for {} ms",
                                     fmt::join(silent, ", "), still_ns / kNsPerMs),
              .hint = "Look at what that rank does, then restart the job",
              .peer = silent.front()}));
  return true;
}

}  // namespace gradwire
