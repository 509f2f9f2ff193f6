// EngineNotes: what an engine writes to its flight recorder, a verb for each RecordKind.
#ifndef GRADWIRE_RUNTIME_ENGINE_ENGINE_NOTES_H_
#define GRADWIRE_RUNTIME_ENGINE_ENGINE_NOTES_H_

#include <cstdint>

#include "base/clock.h"
#include "base/status.h"
#include "collectives/drivers/event_driver.h"
#include "collectives/drivers/point_to_point.h"
#include "collectives/drivers/run_key.h"
#include "runtime/engine/operation.h"
#include "runtime/engine/turn.h"
#include "runtime/recorder/recorder.h"
#include "transports/control/message.h"

namespace gradwire {

// Of an error an entry has its code, its peer and its words. Where nothing else tells the time it
// is now.
class EngineNotes {
 public:
  // Both outlive this. A null recorder: nothing is recorded.
  EngineNotes(Recorder* recorder, const Clock* clock) : recorder_(recorder), clock_(clock) {}

  // What the caller does.
  void StepBegan(uint16_t turn, uint64_t step, int64_t time_ns) const;
  void StepEnded(uint16_t turn, uint64_t step, uint32_t submitted) const;
  void Submitted(const Operation& operation) const;
  void MessageCalled(const Transfer& transfer) const;

  // What becomes of it.
  void Admitted(uint16_t turn, const RunKey& slice) const;
  void SliceDone(uint16_t turn, const RunKey& slice) const;
  void Completed(const Operation& operation, const Status& status) const;
  void MessageEnded(const Transfer& transfer) const;
  // Nothing moves.
  void Waiting(uint16_t turn, const WaitingRun& run) const;

  // The vote. `why`: success of a vote in favour, which is about kNoOpSeq.
  void Voted(uint16_t turn, uint32_t op_seq, uint32_t submitted, const Status& why) const;
  void VoteHeard(uint16_t turn, int from, const VoteFields& vote) const;
  void TurnEnded(const TurnResult& result) const;
  void PlanOrdered(uint16_t turn, uint32_t plan_epoch) const;

  // Failures.
  void Revoked(uint16_t turn, uint32_t op_seq, const Status& why) const;
  void PeerLost(uint16_t turn, int peer, const Status& cause) const;
  void EpochEnded(uint16_t turn, const Status& status) const;

 private:
  void Add(RecorderEvent event) const;
  void Add(RecorderEvent event, const Status& status) const;

  Recorder* const recorder_;
  const Clock* const clock_;
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_ENGINE_ENGINE_NOTES_H_
