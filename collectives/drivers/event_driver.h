// EventDriver: runs schedules over a message transport. Commands of the executors go out, fragments
// and completions come in. Sans threads: whoever calls Poll does the work.
#ifndef GRADWIRE_COLLECTIVES_DRIVERS_EVENT_DRIVER_H_
#define GRADWIRE_COLLECTIVES_DRIVERS_EVENT_DRIVER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/workspace.h"
#include "collectives/drivers/awaited_runs.h"
#include "collectives/drivers/kept_frames.h"
#include "collectives/drivers/message_record.h"
#include "collectives/drivers/point_to_point.h"
#include "collectives/drivers/run_key.h"
#include "collectives/drivers/slice_work.h"
#include "collectives/executor.h"
#include "transports/transport.h"

namespace gradwire {

struct RunSpec {
  RunKey key;
  const PreparedSchedule* schedule = nullptr;  // outlives the run
  SliceWork* work = nullptr;                   // outlives the run
  uint64_t signature = 0;
};

struct FinishedRun {
  RunKey key;
  Status status;
};

struct WaitingRun {
  RunKey key;
  PeerProgress progress;
};

struct DriverCounters {
  int64_t sent_bytes = 0;     // frames, headers included
  int64_t framing_bytes = 0;  // what the transport put around them, see Transport
  int64_t sent_frames = 0;
  int64_t received_bytes = 0;
  int64_t stale_frames = 0;
  int64_t staged_bytes =
      0;  // copied aside because a dependency was not met or the run not admitted
};

// A frame that breaks the rules. The engine revokes the step.
struct ProtocolError {
  Status status;
  int peer = -1;
  std::optional<RunKey> key;  // of what it is about, where that is known
  bool next_turn = false;     // what was lost may belong to the next turn as well
};

class EventDriver : public Sink {
 public:
  struct Options {
    int rank = 0;
    int world_size = 1;
    uint64_t job = 0;
    uint32_t epoch = 0;
    int window = 4;                 // slices in flight
    int64_t max_message_bytes = 0;  // S: no message of a correct peer is longer
    // Takes the frames that are its own; outlives the driver. Null: there are none.
    PointToPoint* point_to_point = nullptr;
  };
  // `transport` outlives the driver.
  EventDriver(Transport* transport, const Options& options);

  // Starts a run; fragments that came early are consumed. At most one run per key.
  void Start(const RunSpec& spec);

  // Moves everything once: transport, sends, at most one quantum of computing. True if anything
  // moved. Never blocks. The messages of `point_to_point` go when it is polled; but where they have
  // found no room and runs would take all there is, they go by turns.
  bool Poll();
  // Whether a run moved since the last call: what else may have moved are messages between two
  // ranks.
  bool TakeRunsMoved() { return std::exchange(runs_moved_, false); }

  // Runs that ended since the last call, in order of ending.
  std::optional<FinishedRun> TakeFinished();
  // The first rule broken since the last call.
  std::optional<ProtocolError> TakeProtocolError();
  std::vector<std::pair<int, Status>> TakeLostPeers();

  // Ends all runs with `status` and drops what was copied aside for this turn and what still comes
  // for it. Sources of sends not yet complete must stay alive until Quiet().
  void CancelAll(const Status& status);
  // No send is outstanding at the transport.
  bool Quiet() const { return outstanding_sends_ == 0; }

  // Begins a turn: frames kept for it are looked at again, those of earlier turns are dropped.
  void BeginTurn(uint16_t turn);
  uint16_t turn() const { return turn_; }

  // A slice of this turn begins here, one of `slices` of its operation: in order of operations and
  // slices, before its first run. Until it is retired frames for runs that it has not begun are
  // kept; those for what is complete, and for slices that its operation does not have, are
  // mismatches. Without these calls all frames are kept that SetCompletedBelow lets pass.
  void Admit(uint32_t op_seq, uint32_t slice, int64_t slices) {
    awaited_.Admit(op_seq, slice, slices);
  }
  // That slice is complete.
  void Retire(uint32_t op_seq, uint32_t slice) { awaited_.Retire(op_seq, slice); }
  // All operations of this turn below `op_seq` are complete here: a frame for one is a mismatch,
  // also one that was kept.
  void SetCompletedBelow(uint32_t op_seq);
  // This turn has so many operations and gets no more: a frame for a further one is a mismatch.
  void SetSubmitted(uint32_t operations);

  DriverCounters counters() const {
    DriverCounters counters = counters_;
    counters.framing_bytes = transport_->framing_bytes();
    return counters;
  }
  // What the oldest run waits for: "sent 7 of 8, waits for peer 3 message 5"; empty: nothing is
  // running.
  std::string DescribeWaiting() const;
  // The oldest run that waits for a peer, and how far it got with it.
  std::optional<WaitingRun> Waiting() const;
  // Its peer, -1: none.
  int AwaitedPeer() const;
  bool idle() const { return active_.empty(); }
  // Non-null: every message whose sending begins is added. Must outlive the driver or be reset.
  void SetRecord(MessageRecord* record) { record_ = record; }

  void OnFragment(int peer, const FrameHeader& header, ConstBytes fragment) override;
  void OnSent(SendToken token) override;
  void OnPeerLost(int peer, const Status& cause) override;

 private:
  struct RecvState {
    int64_t received = 0;   // bytes that arrived
    bool complete = false;  // all of them; of a message of no bytes its header
    bool expected = false;  // fragments are consumed in place
    AlignedBuffer staging;  // what came before `expected`
  };
  struct SendState {
    int64_t offered = 0;    // bytes handed to the transport
    int32_t in_flight = 0;  // fragments not locally complete
    bool offered_all = false;
  };
  struct Run {
    RunSpec spec;
    std::unique_ptr<Executor> executor;
    std::vector<RecvState> recvs;  // per step
    std::vector<SendState> sends;  // per step
    int64_t in_flight = 0;         // fragments not locally complete, also after a cancel
    bool live = false;             // a slot is free when not live and nothing is in flight
  };
  struct PendingSend {
    int slot;
    int32_t step;
  };
  struct PendingCompute {
    int slot;
    int32_t step;
    int64_t cursor = 0;
  };
  struct PeerState {
    std::deque<PendingSend> sends;
    int32_t in_flight = 0;
    bool lost = false;
    bool messages_first = false;  // they wait, and what went last was a run's
    bool sealed = false;  // `header` is ready for the next fragment of sends.front(), which the
                          // transport refused
    FrameHeader header;
  };

  int FreeSlot(const PreparedSchedule* schedule);
  Run* FindRun(const RunKey& key);
  void Accept(int peer, const FrameHeader& header, ConstBytes fragment);
  void Receive(Run& run, int peer, const FrameHeader& header, ConstBytes fragment);
  void Consume(Run& run, int32_t step, int64_t offset, ConstBytes fragment);
  void Keep(int peer, const FrameHeader& header, ConstBytes fragment);
  void Replay(Run& run);
  void CheckKept();
  void TakeCommands(int slot);
  void Expect(Run& run, int32_t step);
  bool PumpSends();
  bool PumpPeer(int peer);
  bool OfferFragments(int peer, PendingSend* pending, bool* full);
  bool ComputeOnce();
  void Collect(int slot);
  void Withdraw(int slot);
  void OnDamage(int peer, const FrameHeader& header, Status why);
  void Fail(int peer, std::optional<RunKey> key, Status status, bool next_turn = false);
  FrameHeader HeaderFor(const Run& run, int32_t message) const;

  Transport* const transport_;
  const Options options_;
  std::vector<std::unique_ptr<Run>> slots_;
  std::vector<int> active_;  // slots in order of admission
  std::vector<PeerState> peers_;
  std::deque<PendingCompute> computes_;
  KeptFrames kept_;  // of runs that are not begun, and of the next turn
  AwaitedRuns awaited_;
  std::deque<FinishedRun> finished_;
  std::optional<ProtocolError> error_;
  std::vector<std::pair<int, Status>> lost_;
  std::vector<Command> commands_;
  DriverCounters counters_;
  MessageRecord* record_ = nullptr;
  int64_t outstanding_sends_ = 0;
  bool cancelled_ = false;  // this turn
  bool runs_moved_ = false;
  bool messages_moved_ = false;  // in PumpSends
  uint16_t turn_ = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_DRIVERS_EVENT_DRIVER_H_
