// EngineCore: takes operations through slices (SlicePipeline), runs (EventDriver) and the vote
// (Ballot). Sans threads and clock reading only through `clock`: the same core runs under the
// engine's thread and under the simulator.
//
// Turns. Every operation belongs to a turn, numbered by the gwStepEnd calls before it. A turn ends
// with the vote: all ranks hear the same outcome. A broken rule (bad frame, mismatch) revokes the
// turn: every rank stops its sends, votes no at once, and the turn ends aborted; the membership is
// intact and the next turn is usable. A lost rank ends the epoch: everything fails with gwPeerLost
// and the communicator is unusable.
#ifndef GRADWIRE_RUNTIME_ENGINE_ENGINE_CORE_H_
#define GRADWIRE_RUNTIME_ENGINE_ENGINE_CORE_H_

#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/timeline.h"
#include "collectives/drivers/event_driver.h"
#include "collectives/drivers/point_to_point.h"
#include "runtime/engine/ballot.h"
#include "runtime/engine/departures.h"
#include "runtime/engine/engine_notes.h"
#include "runtime/engine/hub_watch.h"
#include "runtime/engine/operation.h"
#include "runtime/engine/slice_pipeline.h"
#include "runtime/engine/still_clock.h"
#include "runtime/engine/turn.h"
#include "runtime/recorder/recorder.h"
#include "transports/control/channel.h"
#include "transports/transport.h"

namespace gradwire {

// Told from within Poll (or Submit, for what fails at once). Must not call the core.
class EngineListener {
 public:
  virtual ~EngineListener() = default;
  virtual void OnOperationDone(Operation& operation) = 0;
  virtual void OnTurnEnd(const TurnResult& result) = 0;
  // At rank 0, when all ranks have voted for a turn: what they observed, by rank. Returns what the
  // result is to bring all of them (TurnResult::order), at most kMaxControlBodyBytes.
  virtual std::string OnObservations(uint16_t /*turn*/,
                                     std::span<const std::string> /*observations*/) {
    return {};
  }
  // The epoch is over. Comes once, and again if it throws.
  virtual void OnFatal(const Status& status) = 0;
};

// What gwStepEnd brings to the vote.
struct TurnEnd {
  uint16_t turn = 0;  // that the caller ends; void if it ended without it
  uint64_t step = 0;
  uint64_t table_digest = 0;
  std::shared_ptr<const std::string> table;  // EncodeTensorList; told where the digest is new
  std::string observation;                   // for OnObservations; with the table it fits a message
  bool no_wait = false;
};

class EngineCore final : private ControlSink, private PipelineListener, private TransferListener {
 public:
  struct Options {
    int rank = 0;
    int world_size = 1;
    uint64_t job = 0;
    uint32_t epoch = 0;
    int window = 0;                // slices in flight, 0: SliceWindow chooses
    int64_t slice_bytes = 0;       // no run's input or output is longer
    int64_t op_timeout_ns = 0;     // without progress of an admitted operation; 0: none
    int64_t abort_timeout_ns = 0;  // for sends to complete after a revoke
    int64_t silence_ns = 0;        // without a sign of life, then a rank counts as lost
    NonFinitePolicy nonfinite = NonFinitePolicy::kPropagate;
    uint32_t first_op_seq = 0;     // of the first turn: tests begin shortly before numbers wrap
    Recorder* recorder = nullptr;  // null: nothing is recorded
    Timeline* timeline = nullptr;  // likewise
  };
  // All pointers outlive the core.
  EngineCore(const Options& options, Transport* transport, ControlChannel* control,
             const Clock* clock, EngineListener* listener);
  ~EngineCore() override;

  // Threads: one at a time for everything.
  void Submit(std::shared_ptr<Operation> operation);
  // A message to or from another rank: outside of turns and of the order of operations.
  void Post(std::shared_ptr<Transfer> transfer);
  // The caller has submitted all of this turn. At most two may be pending (the second after one
  // with no_wait).
  void EndTurn(const TurnEnd& end);
  // The caller gives up the turn, which is the present one or is over.
  void RevokeStep(uint16_t turn, Status why);
  // The caller has begun a step, at `time_ns`: only for the record.
  void NoteStepBegin(uint64_t step, int64_t time_ns);
  // The caller submits nothing more, and is about to leave: the others are told.
  void TellThrough();
  // Moves everything once; true if anything moved. Never blocks.
  bool Poll();
  // Ends the epoch from this side. Idempotent.
  void EndEpoch(const Status& status);
  // Likewise, where any of the above has thrown; the others are told why, if memory is left for
  // that.
  void EndBroken(const std::exception& error);
  // The last call before the destructor: what is left completes now, with `status` unless the epoch
  // has ended already, and whether or not the transport has let go of its memory.
  void Close(const Status& status);

  uint16_t turn() const { return turn_; }
  const Status& fatal() const { return fatal_; }
  bool idle() const {
    return pipeline_.empty() && ends_.empty() && !this_turn_.result && !this_turn_.revoked &&
           messages_.idle();
  }
  // No other rank can find any more that an operation of this turn was unlike its own: there is
  // none, or all are through.
  bool settled() const;
  DriverCounters counters() const;
  int window() const { return pipeline_.window(); }
  void SetRecord(MessageRecord* record) { driver_.SetRecord(record); }
  std::string DescribeWaiting() const { return driver_.DescribeWaiting(); }

 private:
  // What is known of turn_; each turn begins with a new one.
  struct TurnState {
    uint8_t nonfinite = 0;           // VoteFields::nonfinite
    std::string nonfinite_tensor;    // the one in which that was met
    int unfinished = 0;              // operations outside steps that are begun and not complete
    uint64_t replicated_digest = 0;  // sum over its operations, which complete in any order
    std::optional<Status> revoked;   // why; none: it is not
    uint32_t revoked_op = kNoOpSeq;  // the operation in doubt, kNoOpSeq: none is
    std::optional<uint32_t> voted;   // what revoked_op was in this rank's last vote; none: no vote
    std::optional<TurnResult> result;
  };

  // Operations.
  void OnBegin(const Operation& operation) override;
  void OnSlicesDone(Operation& operation) override;
  void OnFailed(uint32_t op_seq, Status why) override;
  void RefuseLate(Operation* operation);
  void Refuse(Operation& operation, Status status);
  void NoteNonFinite(const Operation& operation);
  void CompleteOperation(Operation& operation, Status status);
  void EndOperation(Operation& operation, Status status);
  void LookAround();
  HeartbeatFields MyProgress() const;
  void TellProgress();
  void NoteWire();
  void OnTransferEnd(const Transfer& transfer) override;

  // The vote: engine_vote.cc.
  bool MaybeVote();
  std::string TableToTell(const TurnEnd& end);
  void SendVote(const TurnEnd& end, bool ok);
  void OnControl(const ControlMessage& message) override;
  void OnBye(int rank);
  void HandleControl(const ControlMessage& message);
  void HearMine();
  void OnVote(int from, const ControlMessage& message);
  void DecideIfComplete();
  bool MaybeEndTurn();
  std::optional<uint64_t> TakeEnd(StepOutcome outcome);
  void EndQueued(const Status& reason);
  void BeginTurn();

  // Failures: engine_failures.cc.
  Status Locate(Status status, uint32_t op_seq) const;
  Status WithMyNames(Status reason) const;
  OpText TextOf(uint64_t op_seq) const;
  bool HandleDriverErrors();
  void RevokeUnlessOk(Status status);
  void RevokeTurn(Status why, uint32_t op_seq, bool tell_others);
  void TellRevoke(const RevokeFields& fields, const Status& why);
  void OnEpochRevoked(const RevokeFields& fields, Status why);
  void OnRankLost(int rank, const Status& cause) override;
  bool CheckLostPeers();
  void EndEpochForAll(Status why);
  void GiveUp(uint64_t step);
  bool DrainFatal();
  void TellFatal();
  static void WarnOfUnquiet();

  // Whom it waits for in vain: engine_waits.cc.
  void CheckTimeouts();
  void CheckMessages();
  void NoteWaiting();
  void TellStandstill();
  uint64_t SignatureOf(uint64_t op_seq) const;
  void CheckAlike(int peer, const HeartbeatFields& heard);
  void CheckHub(int64_t now_ns);
  void CountLook(int64_t now_ns);
  int WhoLeftTooEarly(int64_t still_ns) const;
  bool CheckLeft(int64_t still_ns);
  Status MissedAs(int peer) const;
  bool CheckOperationTime(int64_t still_ns);
  bool CheckVoteTime(int64_t now_ns);
  bool CheckVoteAgainst(int64_t still_ns);

  const Options options_;
  Transport* const transport_;
  ControlChannel* const control_;
  const Clock* const clock_;
  EngineListener* const listener_;
  const EngineNotes notes_;
  SlicePipeline pipeline_;  // before driver_, which asks for its most_slices
  PointToPoint messages_;
  EventDriver driver_;

  uint16_t turn_ = 0;
  TurnState this_turn_;
  std::deque<TurnEnd> ends_;              // what the caller has ended and no result has come for
  std::vector<ControlMessage> later_;     // for the next turn, from ranks that are in it already
  std::optional<Status> damaged_;         // by a frame that may have been of the next turn
  Status last_reason_;                    // why the turn before this one was aborted or skipped
  std::optional<uint64_t> told_table_;    // digest of the table that the last vote with one told
  uint32_t draws_ = 0;                    // the largest Operation::draws_end begun in any turn
  uint32_t plan_epoch_ = 0;               // number of orders that results have brought
  Ballot ballot_;                         // used at rank 0 only
  HubWatch hub_;                          // used at the other ranks only
  Departures departures_;                 // of all ranks, as far as this one has heard
  StillClock still_;                      // since when no operation has moved here
  bool has_progress_ = false;             // the control plane is still to be told MyProgress
  uint32_t looks_ = 0;                    // HeartbeatFields::looks, counted at rank 0 only
  int64_t last_look_ns_ = 0;              // when rank 0 counted a look
  int64_t next_messages_check_ns_ = 0;    // when messages_ is looked at again
  std::optional<int64_t> wire_since_ns_;  // since when runs are under way, for the timeline
  Status fatal_;                          // why the epoch has ended; success: it has not
  bool fatal_told_ = false;               // the listener and all operations have heard of that
  int64_t quiet_deadline_ns_ = 0;         // until when the transport may use what was stopped
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_ENGINE_ENGINE_CORE_H_
