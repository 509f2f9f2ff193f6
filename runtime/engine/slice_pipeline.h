// SlicePipeline: the operations of an engine in the order in which they were submitted, and their
// slices, as many in flight as the window has room for. It knows turns, for an operation of the
// next one waits; what ranks agree on is EngineCore's. Sans threads.
#ifndef GRADWIRE_RUNTIME_ENGINE_SLICE_PIPELINE_H_
#define GRADWIRE_RUNTIME_ENGINE_SLICE_PIPELINE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "collectives/drivers/event_driver.h"
#include "collectives/drivers/run_key.h"
#include "collectives/schemes/slice_op.h"
#include "runtime/engine/engine_notes.h"
#include "runtime/engine/operation.h"
#include "runtime/engine/slice_window.h"

namespace gradwire {

// Told from within Admit, AdvanceFinishedRuns and Compute.
class PipelineListener {
 public:
  virtual ~PipelineListener() = default;
  // It is about to be prepared.
  virtual void OnBegin(const Operation& operation) = 0;
  // All its slices are done.
  virtual void OnSlicesDone(Operation& operation) = 0;
  // It cannot be prepared, or a slice of it cannot go on. Calls Stop before it returns.
  virtual void OnFailed(uint32_t op_seq, Status why) = 0;
};

class SlicePipeline {
 public:
  struct Options {
    int window = 0;             // slices in flight, 0: SliceWindow chooses
    uint32_t first_op_seq = 0;  // of the first turn
  };
  // All pointers outlive the pipeline, but for `driver`, which need not be constructed yet either:
  // neither constructor nor destructor uses it.
  SlicePipeline(const Options& options, EventDriver* driver, const Clock* clock,
                const EngineNotes* notes, PipelineListener* listener);

  // Of this turn or the next one: gives it the number that follows there.
  void Submit(std::shared_ptr<Operation> operation);
  // How many this turn has had; also the number of its next one.
  uint32_t submitted() const { return submitted_; }
  uint32_t submitted_later() const { return submitted_later_; }  // in the next one

  // Each moves what it can, never blocks, and is true if anything moved.
  bool Admit();                // slices for which there is room
  bool AdvanceFinishedRuns();  // slices whose runs the driver has ended
  bool Compute();              // one slice that has something to compute by itself

  // Ends what is under way, with `why`. Nothing more is admitted in this turn.
  void Stop(const Status& why);
  // Frees what stopped slices sent from. False: the transport has not let go of it.
  bool LetGo();
  // The last call, where it never will: what it may still read is never freed.
  void Leak();

  // Operations of this turn are over, whatever is left of them; those of `turn` follow.
  void BeginTurn(uint16_t turn);
  // What was submitted first, in any turn, and may be done already; null: there is nothing.
  std::shared_ptr<Operation> front() const {
    return queue_.empty() ? nullptr : queue_.front().operation;
  }
  void PopFront() { queue_.pop_front(); }

  bool empty() const { return queue_.empty(); }
  // Of this turn, the first that is not done; null: all are.
  const Operation* oldest() const;
  // Of this turn; null: it has none of that number, or has had it long ago.
  const Operation* Find(uint64_t op_seq) const;
  // It is prepared. For what Find returns.
  bool HasBegun(const Operation& operation) const;
  uint64_t slices_done() const { return slices_done_; }
  int window() const { return window_.size(); }       // full slices
  int most_slices() const { return window_.most(); }  // in flight

 private:
  struct Progress {  // of one queued operation
    std::shared_ptr<Operation> operation;
    bool prepared = false;
    // Once it is prepared, of window_:
    int load = 0;                        // of each slice
    uint64_t kind = 0;                   // 0: its slices' times tell nothing
    bool alone = false;                  // the second slice
    int64_t admitted = 0, finished = 0;  // slices
    bool complete() const { return prepared && finished == operation->slices(); }
  };
  struct ActiveSlice {
    Operation* operation = nullptr;  // queue_ keeps it until all its slices are done
    std::unique_ptr<SliceOp> slice;
    RunKey key;
    SliceAction action;
    int load = 0;       // as in Progress
    uint64_t kind = 0;  // as in Progress, 0: may be shorter
    int64_t admitted_ns = 0;
  };

  bool IsOfThisTurn(const Progress& progress) const { return progress.operation->turn == turn_; }
  Progress* NextToAdmit();
  bool Prepare(Progress* next);
  bool AdmitOne(Progress* next);
  void Advance(size_t index);
  void Finish(size_t index);
  void SkipDone();
  void Fail(size_t index, Status why);

  EventDriver* const driver_;
  const Clock* const clock_;
  const EngineNotes* const notes_;
  PipelineListener* const listener_;
  SliceWindow window_;
  uint16_t turn_ = 0;
  uint32_t submitted_;
  uint32_t submitted_later_ = 0;
  std::deque<Progress> queue_;                       // those of the next turn behind
  std::deque<std::shared_ptr<Operation>> done_;      // this turn's last ones, for mismatches
  std::vector<ActiveSlice> active_;                  // in order of admission
  std::vector<std::unique_ptr<SliceOp>> graveyard_;  // the transport may still read what they sent
  bool stopped_ = false;                             // this turn
  uint64_t slices_done_ = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_ENGINE_SLICE_PIPELINE_H_
