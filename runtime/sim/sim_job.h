// A whole job in one thread: an EngineCore a rank with its tensors, over the simulated network or
// loopback, in virtual time. For tests. A JobRank does what a communicator does for its rank, by
// the same RankTensors, but for waiting.
#ifndef GRADWIRE_RUNTIME_SIM_SIM_JOB_H_
#define GRADWIRE_RUNTIME_SIM_SIM_JOB_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/schedule.h"
#include "collectives/schemes/raw/raw_slice.h"
#include "runtime/controller/controller.h"
#include "runtime/engine/engine_core.h"
#include "runtime/operations/tensor_groups.h"
#include "runtime/rank/rank_tensors.h"
#include "runtime/state/tensor_state.h"
#include "transports/control/sim_control.h"
#include "transports/faulty/fault_plan.h"
#include "transports/sim/sim_network.h"

namespace gradwire {

// As frames carry it.
inline constexpr uint64_t kSimJobNumber = 4711;

struct JobOptions {
  int world_size = 2;
  int64_t slice_elems = 1024;
  int window = 0;
  uint32_t seed = 1;  // of dithers
  bool transaction = true;
  NonFinitePolicy nonfinite = NonFinitePolicy::kPropagate;
  uint32_t first_op_seq = 0;  // see EngineCore::Options
  // All-reduces of tensors, exact and encoded; null: as the library chooses.
  const AlgorithmRow* exact = nullptr;
  const AlgorithmRow* encoded = nullptr;
  int64_t op_timeout_ns = 0;
  LivenessOptions liveness = {.period_ns = 5 * kNsPerMs, .bound_ns = 100 * kNsPerMs};
  SimOptions network;  // world_size is filled in
  // A rank that found nothing to do is not asked again before something has happened for it: half
  // of the time of a long job. Not where bounds in time matter, which are looked at when it is.
  bool idle_ranks_rest = false;
  // Not the simulated network but loopback; its polls are what time is to the faults.
  bool loopback = false;
  std::optional<FaultPlan> faults;  // around loopback; each rank gets a seed of its own
};

// A rank's own time. While it is busy it does nothing else, and what it measures is later than the
// job's time.
class RankClock final : public Clock {
 public:
  // The job's; outlives this.
  explicit RankClock(const ManualClock* job) : job_(job) {}

  int64_t NowNs() const override { return std::max(job_->NowNs(), busy_until_ns_); }
  // It has worked for so long, from now on.
  void Work(int64_t ns) { busy_until_ns_ = NowNs() + ns; }
  bool is_busy() const { return busy_until_ns_ > job_->NowNs(); }
  int64_t busy_until_ns() const { return busy_until_ns_; }

 private:
  const ManualClock* const job_;
  int64_t busy_until_ns_ = 0;
};

class JobRank final : private EngineListener {
 public:
  JobRank(const JobOptions& options, int rank, std::unique_ptr<Transport> transport,
          ControlChannel* control, const Clock* clock);

  TensorState* Register(const std::string& name, int64_t elems, DType dtype,
                        const std::string& spec);
  static void SetSpec(TensorState* tensor, const std::string& spec);
  // Its codec is the controller's choice. Its steps are submitted when their turn has begun.
  void SetAutomatic(TensorState* tensor, std::shared_ptr<const AutoSpec> spec);

  std::shared_ptr<Operation> SubmitRaw(RawOp op, const AlgorithmRow& row, uint16_t turn);
  // For the controller; nobody else asks. A step is left when its outcome is known.
  void BeginStep(const StepContext& step) { controller()->BeginStep(step.number, step.turn); }
  void LeaveStep() { controller()->EndStep(); }
  Controller* controller() { return &tensors_.controller(); }
  // One operation a scheme and type.
  Operations SubmitTensors(std::span<const SubmittedTensor> tensors, ReduceOp op,
                           const StepContext& step);
  std::shared_ptr<Operation> SubmitReduceScatter(const SubmittedTensor& tensor, ReduceOp op,
                                                 const StepContext& step);
  void EndStep(const StepContext& step, bool no_wait = false);

  bool Poll() { return core_->Poll(); }
  EngineCore& core() { return *core_; }
  TensorTable& tensors() { return tensors_.table(); }
  Transport& transport() { return *transport_; }
  // Frees what a dead rank held.
  void Die() { core_.reset(), transport_.reset(); }

  // Of ended turns, in order: turn t is at t.
  const std::vector<TurnResult>& results() const { return results_; }
  uint16_t turn() const { return static_cast<uint16_t>(results_.size()); }
  const Status& fatal() const { return fatal_; }
  // Called when a turn has ended and its outcome is in effect.
  std::function<void(const TurnResult&)> on_turn_end;

 private:
  void OnOperationDone(Operation& operation) override;
  void OnTurnEnd(const TurnResult& result) override;
  std::string OnObservations(uint16_t turn, std::span<const std::string> observations) override;
  void OnFatal(const Status& status) override { fatal_ = status; }
  void FollowPlan(std::span<const SubmittedTensor> tensors, const StepContext& step);

  RankTensors tensors_;
  std::vector<TurnResult> results_;
  Status fatal_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<EngineCore> core_;  // last: uses everything above
};

class SimJob {
 public:
  explicit SimJob(const JobOptions& options);

  int size() const { return options_.world_size; }
  JobRank& operator[](int rank) { return *ranks_[rank]; }
  bool alive(int rank) const { return control_->alive(rank); }
  int64_t now_ns() const { return clock().NowNs(); }
  SimNetwork& network() { return *network_; }
  RankClock& clock(int rank) { return clocks_[rank]; }
  void Kill(int rank);
  // Its engine stands still from now on; its control plane still gives signs of life.
  void StopEngine(int rank) { is_stopped_[rank] = true; }
  // All of it stands still (SIGSTOP), until Continue.
  void Stop(int rank) { control_->Stop(rank), is_stopped_[rank] = true; }
  void Continue(int rank) {
    control_->Continue(rank), is_stopped_[rank] = false;
    moved_[rank] = true;
  }
  // As gwCommFinalize, without waiting: the rank says that it leaves. When it may, Kill ends it.
  void SayBye(int rank) { control_->SayBye(rank, Status()); }
  bool MayLeave(int rank) const { return control_->MayLeave(rank); }

  // Lets everybody work, and time pass when nobody can, until `done`. `work` is called before each
  // poll of a live rank and does what its caller does; true: it did something. `next_ns`: when
  // `work` has something to do at the latest. False: not done at `bound_ns`.
  struct Callers {
    std::function<bool(int rank)> work = [](int) { return false; };
    std::function<int64_t()> next_ns = [] { return INT64_MAX; };
  };
  bool RunUntil(const std::function<bool()>& done, int64_t bound_ns, const Callers& callers);
  bool RunUntil(const std::function<bool()>& done, int64_t bound_ns);

 private:
  const ManualClock& clock() const { return network_->clock(); }
  bool Poll(int rank);
  // False: it rests.
  bool MayMove(int rank);
  // When the first busy rank is free, INT64_MAX: none is busy.
  int64_t FreeNs() const;
  void PassTime(int64_t next_ns);

  const JobOptions options_;
  std::shared_ptr<SimNetwork> network_;  // where loopback is used only its clock and its dice
  std::unique_ptr<SimControl> control_;
  std::deque<RankClock> clocks_;
  std::vector<std::unique_ptr<JobRank>> ranks_;
  std::vector<bool> is_stopped_;  // by rank
  std::vector<bool> moved_;       // by rank, when it was last asked
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_SIM_SIM_JOB_H_
