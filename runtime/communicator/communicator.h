// Communicator: one rank's end of a job, with everything the C API needs. The C API adds argument
// checks of its own and nothing else. Threads: one at a time, but Abort, async_error and the errors
// from any.
#ifndef GRADWIRE_RUNTIME_COMMUNICATOR_COMMUNICATOR_H_
#define GRADWIRE_RUNTIME_COMMUNICATOR_COMMUNICATOR_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/timeline.h"
#include "collectives/schemes/raw/raw_slice.h"
#include "collectives/schemes/slice_size.h"
#include "runtime/communicator/comm_statistics.h"
#include "runtime/communicator/message_call.h"
#include "runtime/communicator/step_clock.h"
#include "runtime/engine/engine.h"
#include "runtime/operations/tensor_groups.h"
#include "runtime/rank/rank_tensors.h"
#include "runtime/state/tensor_state.h"
#include "transports/control/control_plane.h"
#include "transports/transport.h"

namespace gradwire {

// What the ranks agreed on at the start.
struct AgreedSettings {
  bool one_host = false;
  SliceSize slice;
  int window = 0;  // slices in flight, 0: SliceWindow chooses
  uint32_t seed = 0;
  std::string spec;                          // default of tensors
  const AlgorithmRow* all_reduce = nullptr;  // of exact ones; null: by size
  std::string transport;
  bool transaction = true;
  NonFinitePolicy nonfinite = NonFinitePolicy::kPropagate;
};

// The parts of a communicator, made by comm_start.
struct CommParts {
  int rank = 0;
  int world_size = 1;
  uint64_t job = 0;
  std::string root;  // where the ranks met, as 10.0.0.1:29600; empty: not known, or no matter
  AgreedSettings agreed;
  IdlePolicy idle;
  int64_t op_timeout_ns = 0;
  int64_t abort_timeout_ns = 0;
  int64_t silence_ns = 0;     // see EngineCore::Options
  std::string record_path;    // messages really sent are written there at the end; empty: no record
  std::string timeline_path;  // likewise for the timeline
  std::string plan_log;       // what rank 0's controller decides from; empty: no log
  std::unique_ptr<Recorder> recorder;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<ControlPlane> control;
  std::shared_ptr<std::atomic<Engine*>> wake_target;  // told when the control plane has news
};

// A submission of the caller: done when all its operations are.
struct Request {
  Operations operations;
  // The first that is not complete; null once all are.
  const Operation* waiting() const;
  bool done() const { return waiting() == nullptr; }
  Status status() const;  // of the first operation that failed
};

// Exact calls that are issued together: collectives keep their order, and so do the messages to one
// rank and those from one rank; nothing else of a group waits for anything else of it.
struct CallGroup {
  std::vector<RawOp> collectives;
  std::vector<MessageCall> messages;
};
// Issued, and perhaps under way.
struct IssuedCalls {
  Operations operations;
  std::vector<std::shared_ptr<Transfer>> transfers;
};

struct StepEnd {
  StepOutcome outcome = StepOutcome::kCommit;
  Status reason;
};

class Communicator final : private EngineListener {
 public:
  static StatusOr<std::unique_ptr<Communicator>> Create(CommParts parts);
  ~Communicator() override;

  int rank() const { return parts_.rank; }
  int world_size() const { return parts_.world_size; }
  const std::string& root() const { return parts_.root; }

  // Exact, complete on return. `name` in errors and records; empty: the collective's.
  Status Run(RawOp op, std::string_view name = {}, const Operation::Patience& patience = {});
  // Whether all of it can be issued.
  Status Check(const CallGroup& group) const;
  // Of a group that was checked. An error: nothing is issued. What is issued must be waited for.
  StatusOr<IssuedCalls> Issue(const CallGroup& group);
  // Until all of it is complete: how the first that failed ended.
  Status Finish(const IssuedCalls& issued);

  StatusOr<TensorState*> Register(const std::string& name, std::span<const int64_t> shape,
                                  DType dtype, const std::string& spec);
  Status Deregister(TensorState* tensor);
  Status SetSpec(TensorState* tensor, const std::string& spec);
  // What it staged in the open step will not be committed. On all ranks alike.
  Status DiscardStep(TensorState* tensor);
  StatusOr<std::unique_ptr<Request>> Submit(std::span<const SubmittedTensor> tensors, ReduceOp op);
  // A reduce-scatter: `recv` takes this rank's of world_size equal shards.
  StatusOr<std::unique_ptr<Request>> SubmitReduceScatter(const SubmittedTensor& tensor,
                                                         ReduceOp op);
  // gwTimeout: still under way.
  Status Wait(Request* request, int64_t timeout_ns);
  // How a request that is done ended. Never waits: neither for the engine, which may be in a long
  // pass of a codec, nor for the end of a turn that failed.
  Status Look(const Request& request);

  Status BeginStep(uint64_t step);
  Status SetLossScale(float scale);
  // Waits for the outcome.
  StatusOr<StepEnd> EndStep();
  Status EndStepNoWait();
  // It ends as aborted on all ranks, which are told `why`.
  Status AbortStep(std::string_view why);

  // Its size in bytes; written where `to` has room for all.
  StatusOr<int64_t> SaveState(Bytes to);
  Status LoadState(ConstBytes bytes);
  std::string StatsJson();
  std::string LedgerJson();

  Status Finalize();
  void Abort();
  // For a caller that is about to wait for other ranks by means of its own: becomes true when the
  // communicator ends or the turn fails, which the next call then tells. Lives as long as this.
  const std::atomic<bool>* WatchForFailure();
  // The number of the next split, as far as this rank knows: it may have missed some that failed.
  uint32_t splits() const { return splits_; }
  // Another one for each number and each communicator of the job, equal on all ranks that give the
  // same number; splits() is the one behind it from then on.
  uint64_t TakeSplitSalt(uint32_t number);
  // Success while usable.
  Status async_error() const;

  void SetLastError(std::string text);
  std::string last_error() const;

 private:
  explicit Communicator(CommParts parts);
  void OnOperationDone(Operation& operation) override;
  void OnTurnEnd(const TurnResult& result) override;
  std::string OnObservations(uint16_t turn, std::span<const std::string> observations) override;
  void OnFatal(const Status& status) override;

  // While it lives the caller's thread waits in the library.
  class Blocked {
   public:
    explicit Blocked(Communicator* comm);
    ~Blocked();
    Blocked(const Blocked&) = delete;
    Blocked& operator=(const Blocked&) = delete;

   private:
    Communicator* const comm_;
    const ScopedSpan span_;
    const int64_t begin_ns_;  // 0: nobody measures steps
  };

  StepContext Context() const {
    return {.number = step_, .turn = user_turn_, .loss_scale = loss_scale_, .open = step_open_};
  }
  Status CheckUsable() const;
  Status WaitForRest(const char* done);
  Status UntoldAbort();
  Status CatchUp();
  StatusOr<std::shared_ptr<Operation>> MakeRawOperation(RawOp op, std::string_view name);
  Status CheckSubmit(std::span<const SubmittedTensor> tensors);
  Status FollowPlan(std::span<const SubmittedTensor> tensors);
  bool HelpUntil(const Engine::Ready& ready, const Deadline& deadline);
  Status CheckReduceScatter(const TensorState& tensor) const;
  std::unique_ptr<Request> SubmitAll(std::span<const SubmittedTensor> tensors,
                                     Operations operations);
  Status WaitForTurn(uint16_t turn, const Deadline& deadline);
  void FollowTurn(uint16_t failed, const Deadline& deadline = Deadline::Never());
  void FollowLooks();
  std::optional<TurnResult> ResultOf(uint16_t turn);
  void LeaveStep();
  Status Leave(const Deadline& end);
  void TellWhy();
  Status AwaitOthers(const Deadline& end);
  void WriteRecord();
  void WriteTimeline();

  CommParts parts_;
  const Clock* const clock_;
  const std::unique_ptr<Timeline> timeline_;  // null: nobody wants it
  // As its sections say, the second one under the engine's core. What an operation of a tensor uses
  // is the engine's until that is done.
  RankTensors tensors_;
  Codec none_;  // of tensors that are exempt from compression

  // The caller's thread.
  uint16_t user_turn_ = 0;
  std::optional<uint16_t> failed_turn_;  // that Look told of: it is still to be followed
  bool step_open_ = false;
  bool step_has_submits_ = false;
  uint64_t submit_count_ = 0;  // calls that submitted tensors, refused ones too
  uint64_t step_ = 0;
  float loss_scale_ = 1.0f;
  uint32_t splits_ = 0;
  int64_t step_begin_ns_ = 0;
  StepClock step_clock_;
  bool finalized_ = false;

  // Written by the engine.
  std::atomic<uint16_t> engine_turn_{0};
  std::atomic<bool> is_fatal_{false};
  std::atomic<bool> failed_{false};  // since WatchForFailure
  mutable std::mutex mu_;
  Status fatal_;                          // guarded by mu_
  std::vector<TurnResult> turn_results_;  // the last ones; guarded by mu_
  std::string last_error_;                // guarded by mu_
  // Guarded by the engine's core.
  CommStatistics statistics_{parts_.agreed.one_host ? Hosts::kOne : Hosts::kSeveral};
  MessageRecord record_;
  std::unique_ptr<Engine> engine_;  // last: its thread uses everything above
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_COMMUNICATOR_COMMUNICATOR_H_
