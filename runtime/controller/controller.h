// Controller: one rank's part in choosing the codecs of its tensors of spec `auto`. Every rank
// measures and obeys; rank 0 also decides. docs/controller.md tells how.
//
//   a step's measurements  ->  the vote on the next step  ->  Decide at rank 0  ->  its result  ->
//   the rungs of the tensors, two turns later
#ifndef GRADWIRE_RUNTIME_CONTROLLER_CONTROLLER_H_
#define GRADWIRE_RUNTIME_CONTROLLER_CONTROLLER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "collectives/schedule.h"
#include "runtime/controller/changes.h"
#include "runtime/controller/decide.h"
#include "runtime/controller/observation.h"
#include "runtime/controller/plan.h"
#include "runtime/controller/plan_log_file.h"
#include "runtime/controller/probe.h"
#include "runtime/controller/probe_schedule.h"
#include "runtime/controller/step_gaps.h"
#include "runtime/state/tensor_state.h"

namespace gradwire {

class Controller {
 public:
  struct Options {
    int rank = 0;
    int64_t slice_elems = 0;
    AlgorithmRule algorithms;      // of the job's all-reduces
    const Clock* clock = nullptr;  // outlives this
    uint64_t job = 0;              // of the communicator
    std::string log_path;          // of rank 0: what is decided from; empty: no log
  };
  explicit Controller(const Options& options);
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  // A tensor of spec `auto` has been registered. Before that nothing is measured, and what follows
  // costs next to nothing.
  void Enable() { enabled_.store(true, std::memory_order_relaxed); }

  // ---- the caller's thread ----
  // `turn` is that of the step.
  void BeginStep(uint64_t step, uint16_t turn);
  void EndStep();
  // The caller has waited in the library.
  void NoteBlocked(int64_t waited_ns);
  // `turn`, which is near the present one, with what it wrapped.
  int64_t TurnNumber(uint16_t turn) const;
  // The rung of a tensor of spec `auto` in `turn`.
  int RungFor(const TensorState& tensor, uint16_t turn, bool in_step) const;
  // It is submitted, from `grad`. Rank 0 may try a codec on it.
  void NoteSubmit(TensorState* tensor, const std::byte* grad);
  // For the vote on the step that is ending; empty: nothing is to be told.
  std::string TakeObservation();

  // ---- whoever runs the engine ----
  void NoteOperation(uint16_t turn, int64_t submit_ns, int64_t complete_ns);  // it is complete
  // `order` is what the result brought. Takes the measurements of the step from the tensors.
  void EndTurn(uint16_t turn, bool commit, std::string_view order,
               std::span<TensorState* const> tensors);
  // At rank 0, between all votes and the result of `turn`: what that is to bring.
  std::string Advise(uint16_t turn, std::span<const std::string> observations,
                     std::span<TensorState* const> tensors);

  // What the controller has learnt, for a saved state; empty: nothing, or not at rank 0. Load: the
  // controller goes on from it where it is of the tensors that the next step has, and warms up
  // otherwise.
  std::string Save() const;
  void Load(std::string knowledge);

  // What has been decided so far, as JSON.
  std::string Json() const;

 private:
  struct Measured {  // a step, from its begin to the next one's
    StepObservation observation;
    int64_t begin_ns = 0, end_ns = 0;
    float blocked_after_us = 0;  // in the gap behind it
    bool committed = false;
  };
  struct Order {
    int64_t from_turn = 0;
    PlanOrder plan;
  };
  struct TriedCodec {
    std::string spec;
    int64_t elems = 0;  // of the piece
    ProbeReport report;
  };

  bool enabled() const { return enabled_.load(std::memory_order_relaxed); }
  bool Compares(uint16_t turn) const;
  int64_t Number(uint16_t turn) const;
  std::optional<ProbeTicket> TakeTicket(const TensorState& tensor, int64_t now_ns);
  std::optional<TriedCodec> Probe(const TensorState& tensor, const ProbeTicket& ticket,
                                  const std::byte* grad);
  Measured* MeasuredIn(uint16_t turn);
  void UpdateJob(std::span<TensorState* const> controlled, int64_t automatic);
  void Resume();
  Plan InEffect() const;
  std::vector<ProbeResult> TakeProbes();
  void TellModel(const StepInput& step);
  void TellBlind() const;

  const Options options_;
  Prober prober_;  // the caller's thread
  std::atomic<bool> enabled_{false};
  mutable std::atomic<bool> is_blind_told_{false};
  mutable std::mutex mu_;

  // All below is guarded by mu_.
  std::optional<Measured> open_, previous_;
  StepGaps gaps_;
  int64_t busy_until_ns_ = 0;
  int64_t turns_ = 0, commits_ = 0;  // that have ended
  int64_t job_since_commit_ = 0;     // commits_ when the job came to be what it is
  std::deque<Order> orders_;         // oldest first; of those that a turn may still ask for
  // Rank 0.
  ProbeSchedule probe_schedule_;
  std::vector<TriedCodec> probes_;  // since the last decision
  JobFacts job_;
  uint64_t job_digest_ = 0;
  int64_t automatic_ = 0;  // tensors, also those that are too many
  Memory memory_;
  bool is_model_off_told_ = false;
  std::string loaded_;  // knowledge that the next decision begins with
  std::string note_;    // for the ledger: what became of it
  std::string scope_;   // likewise: which tensors are not controlled; empty: all that may be are
  Changes changes_;
  PlanLogFile log_;
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_CONTROLLER_CONTROLLER_H_
