// RankTensors: one rank's registered tensors and what it does with them: the codecs that the plan
// gives them, the operations made of them, the end of a turn. Who waits, and under which lock, is
// its owner's affair: a communicator, or a simulated rank.
#ifndef GRADWIRE_RUNTIME_RANK_RANK_TENSORS_H_
#define GRADWIRE_RUNTIME_RANK_RANK_TENSORS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/timeline.h"
#include "collectives/schedule.h"
#include "collectives/schemes/raw/raw_slice.h"
#include "collectives/schemes/slice_size.h"
#include "runtime/controller/controller.h"
#include "runtime/engine/engine_core.h"
#include "runtime/engine/operation.h"
#include "runtime/operations/schedule_cache.h"
#include "runtime/operations/tensor_groups.h"
#include "runtime/spec/auto_spec.h"
#include "runtime/state/tensor_state.h"

namespace gradwire {

// How a step looks to whoever submits.
struct StepContext {
  uint64_t number = 0;
  uint16_t turn = 0;
  float loss_scale = 1.0f;
  bool open = true;  // false: outside steps
};

using Operations = std::vector<std::shared_ptr<Operation>>;

class RankTensors {
 public:
  struct Options {
    int rank = 0;
    AlgorithmRule algorithms;  // of the job's all-reduces
    SliceSize slice;
    uint32_t seed = 0;  // for dithers
    bool transaction = true;
    NonFinitePolicy nonfinite = NonFinitePolicy::kPropagate;
    const Clock* clock = nullptr;  // outlives this
    Timeline* timeline = nullptr;  // likewise; null: nobody wants it
    uint64_t job = 0;              // of the communicator
    std::string plan_log;          // Controller::Options::log_path
  };
  explicit RankTensors(const Options& options);

  // Its parts, for what concerns one of them alone.
  TensorTable& table() { return table_; }
  Controller& controller() { return controller_; }
  ScheduleCache& schedules() { return schedules_; }
  const AlgorithmRule& algorithms() const { return options_.algorithms; }

  // ---- the caller's thread ----

  // An exact collective on plain buffers, whose rank and number of ranks are filled in.
  std::shared_ptr<Operation> MakeRaw(RawOp op, const AlgorithmRow& algorithm, uint16_t turn);

  struct CodecChange {
    TensorState* tensor = nullptr;
    const Codec* codec = nullptr;  // a rung of its ladder
  };
  // What the plan has for those of spec `auto`, where they have something else. To be taken before
  // operations are made of them, and not before the step's turn has begun.
  std::vector<CodecChange> PlannedChanges(std::span<const SubmittedTensor> tensors,
                                          const StepContext& step) const;

  // One operation a scheme and type. Takes as long as trying a codec, which rank 0 may do.
  StatusOr<Operations> MakeAllReduce(std::span<const SubmittedTensor> tensors, ReduceOp op,
                                     const StepContext& step);
  // Of a tensor that TakesReduceScatter.
  StatusOr<std::shared_ptr<Operation>> MakeReduceScatter(const SubmittedTensor& tensor, ReduceOp op,
                                                         const StepContext& step);

  // For a caller that waits for the outcome.
  TurnEnd MakeTurnEnd(const StepContext& step);

  // ---- whoever runs the engine, or keeps it from running ----

  // The controller chooses the tensor's codec, from `turn` on. What is kept of it stays.
  void Automate(TensorState* tensor, std::shared_ptr<const AutoSpec> spec, uint16_t turn);
  void TakeChanges(std::span<const CodecChange> changes) const;

  // As EngineListener has them.
  void NoteDone(const Operation& operation);
  std::string Advise(uint16_t turn, std::span<const std::string> observations);
  void EndTurn(const TurnResult& result);

 private:
  int world_size() const { return options_.algorithms.world_size; }
  int64_t SliceElemsFor(std::span<const SubmittedTensor> group) const;
  StatusOr<std::shared_ptr<Operation>> MakeGroup(std::vector<SubmittedTensor> group, Scheme scheme,
                                                 ReduceOp op, const StepContext& step);
  void BeginAnew(uint32_t draws);

  const Options options_;
  ScheduleCache schedules_;
  TensorTable table_;
  Controller controller_;
  std::shared_ptr<const std::string> table_text_;  // of the table with the digest
  uint64_t table_digest_ = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_RANK_RANK_TENSORS_H_
