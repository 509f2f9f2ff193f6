// The callers of a simulated job: one rank's program through a scenario, with what it saw.
#ifndef GRADWIRE_RUNTIME_SIM_SIM_CALLER_H_
#define GRADWIRE_RUNTIME_SIM_SIM_CALLER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/wrapping.h"
#include "runtime/sim/sim_job.h"
#include "runtime/sim/sim_scenario.h"

namespace gradwire {

// What one rank holds after a turn that was not aborted.
struct StepRecord {
  uint64_t number = 0;
  StepOutcome outcome = StepOutcome::kCommit;
  // Digests of this rank's outputs by operation: of exact collectives, of tensors, and of all that
  // is the same on all ranks.
  std::vector<uint64_t> exact, sums, common;
  uint64_t residuals = 0;
  bool finite = true;      // all residuals
  bool disturbed = false;  // this step or one before was aborted, and not for its own values
};

// Sums over the ranks for the law of conservation, by (step number, tensor).
struct Balance {
  std::vector<double> in, out, size;
  int ranks = 0;  // whose input is in it
};
using Ledger = std::map<std::pair<uint64_t, int>, Balance>;

// The program of one rank: what a training script would do, retries included.
class Caller {
 public:
  Caller(const Scenario& scenario, SimJob* job, int rank, Ledger* ledger)
      : s_(scenario),
        job_(job),
        rank_(rank),
        ledger_(ledger),
        random_(scenario.seed, 100 + rank),
        memory_(scenario.steps.size()) {
    for (size_t t = 0; t < s_.tensors.size(); ++t) {
      const ScenarioTensor& tensor = s_.tensors[t];
      tensors_.push_back(me().Register(tensor.name, tensor.elems, tensor.dtype, "none"));
    }
    me().on_turn_end = [this](const TurnResult& result) { OnTurnEnd(result); };
  }

  bool finished() const {
    return step_ == s_.steps.size() && inbox_.empty() && (*job_)[rank_].turn() >= user_turn_;
  }
  bool over() const { return finished() || !(*job_)[rank_].fatal().ok(); }
  int64_t next_ns() const { return over() || wake_ns_ <= job_->now_ns() ? INT64_MAX : wake_ns_; }
  const std::vector<StepRecord>& records() const { return records_; }

  // True: it did something.
  bool Work();

 private:
  enum class State { kBegin, kSubmit, kWait, kEnd, kAwait };
  struct OpMemory {
    std::vector<std::vector<std::byte>> send, recv;
    bool scattered = false;
  };

  JobRank& me() { return (*job_)[rank_]; }
  const ScenarioStep& step() const { return s_.steps[step_]; }
  bool Faulty(FaultKind kind) const {
    return s_.fault == kind && s_.fault_rank == rank_ && attempt_ == 0 &&
           s_.fault_step == static_cast<int>(step_);
  }
  bool TurnIsOver() { return TurnsAhead(me().turn(), context_.turn) > 0; }
  void Pause() {
    if (s_.longest_pause_ns > 0)
      wake_ns_ = job_->now_ns() + static_cast<int64_t>(random_.Below(s_.longest_pause_ns));
  }
  bool Act();
  bool Begin();
  bool SubmitNext();
  void Queue(std::shared_ptr<Operation> operation) { operations_.push_back(std::move(operation)); }

  void SubmitRaw(size_t index);
  void SubmitExtra() {
    const StatusOr<const AlgorithmRow*> row = FindAlgorithm(Collective::kBarrier, "dissemination");
    Queue(me().SubmitRaw({.collective = Collective::kBarrier}, **row, context_.turn));
  }
  void SubmitGroup(size_t index);
  bool Scatters(const ScenarioOp& op) const;
  static void SetInfinite(std::vector<std::byte>* values, DType dtype);
  bool WaitForOps();
  bool End();
  bool Await();
  void Advance();
  // The step that a turn carries is the one with its number.
  void OnTurnEnd(const TurnResult& result);
  void Digest(const ScenarioOp& op, size_t step, size_t index, StepRecord* record);
  bool Conserves(int t, const ScenarioOp& op, const ScenarioStep& step) const;
  Balance& BalanceOf(const ScenarioStep& step, int t);
  // In the job without trouble a step is submitted once, when the vote before it is in effect or
  // the residual is looked at later (no_wait): then its sum is left out.
  void NoteIn(const ScenarioOp& op);
  void NoteOut(size_t at);
  const Scenario& s_;
  SimJob* const job_;
  const int rank_;
  Ledger* const ledger_;
  RandomStream random_;
  std::vector<TensorState*> tensors_;
  std::vector<std::vector<OpMemory>> memory_;  // by step and operation
  std::deque<std::function<void()>> inbox_;    // calls on their way to the engine
  std::vector<StepRecord> records_;
  State state_ = State::kBegin;
  size_t step_ = 0, next_op_ = 0;
  int attempt_ = 0;
  bool repaired_ = false;  // the step's gradients hold no infinity any more
  bool disturbed_ = false;
  uint16_t user_turn_ = 0;
  StepContext context_;
  Operations operations_;
  bool one_by_one_ = false;
  int64_t wake_ns_ = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_SIM_SIM_CALLER_H_
