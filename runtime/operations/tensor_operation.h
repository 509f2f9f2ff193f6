// TensorOperation: a group of registered tensors that travels together, by any scheme.
#ifndef GRADWIRE_RUNTIME_OPERATIONS_TENSOR_OPERATION_H_
#define GRADWIRE_RUNTIME_OPERATIONS_TENSOR_OPERATION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "collectives/executor.h"
#include "collectives/schedule.h"
#include "collectives/schemes/part.h"
#include "collectives/schemes/raw/raw_slice.h"
#include "collectives/schemes/slice_op.h"
#include "runtime/engine/operation.h"
#include "runtime/operations/schedule_cache.h"
#include "runtime/operations/tensor_groups.h"
#include "runtime/state/tensor_state.h"

namespace gradwire {

// A group as it is submitted. What it names outlives the operation.
struct TensorCall {
  Scheme scheme = Scheme::kLinear;
  ReduceOp op = ReduceOp::kSum;
  PartContext context;  // but for its scales
  int64_t slice_elems = 0;
  // By what its methods send once they have settled. Where they have replicated state the text
  // and the signature alone take it, and what runs is chosen by that state.
  const AlgorithmRow* algorithm = nullptr;
  // Of the job.
  const AlgorithmRule* algorithms = nullptr;
  ScheduleCache* schedules = nullptr;
  float loss_scale = 1.0f;
  std::optional<uint64_t> step;  // none: outside of any
  uint16_t turn = 0;
  bool transaction = true;
  // Tell whether gradients of this rank are not finite: one more pass over them.
  bool looks_at_gradients = false;
};

// Reads the live residuals and stages the next ones; whether they are kept is the vote's decision,
// but outside a step or without transactions, where they are live on completion. Tensors and
// memory outlive the operation.
class TensorOperation final : public Operation {
 public:
  // Of `tensors` dither_step is given.
  TensorOperation(std::vector<SubmittedTensor> tensors, const TensorCall& call);

  OpText Text() const override;
  uint64_t Signature() const override;
  Status Prepare() override;
  int64_t slices() const override;
  SliceTraits Traits() const override;
  StatusOr<std::unique_ptr<SliceOp>> MakeSlice(int64_t index) override;
  void OnComplete() override;
  void OnFailed() override;

 private:
  std::string StepText() const;
  std::vector<uint32_t> Draws() const;
  bool StagesForVote() const { return call_.step && call_.transaction; }
  bool HasResidual() const;
  bool KnownResidual() const;
  TensorPart PartOf(const SubmittedTensor& submitted) const;
  Status PrepareReplicated();
  Status PrepareSchedule();
  const PayloadCodec* PayloadOf(const TensorState& tensor) const;
  bool TravelsAsItCame(const TensorState& tensor) const;
  bool Rides(const TensorState& tensor) const;
  void LookAtGradients(std::span<const Piece> slice);
  void NameNonFinite();
  void Charge(const SliceStats& own, TensorState* tensor) const;
  void SettleResidual(const SubmittedTensor& submitted);
  void SettleReplicated(TensorState* tensor);
  std::optional<RawOp> AsFlat() const;

  const std::vector<SubmittedTensor> tensors_;
  const TensorCall call_;                                   // with the scales of its context
  std::vector<std::shared_ptr<const TensorLabel>> labels_;  // of the tensors, which may go before
  const std::vector<uint32_t> draws_;                 // of tensors whose ranks must draw alike
  const bool exact_;                                  // the plain sum, with residuals sent along
  const std::shared_ptr<const CarrierMethod> rider_;  // of exact tensors among others; may be null
  std::optional<bool> has_residual_;                  // from Prepare on
  std::optional<uint64_t> replicated_;  // digest of what Prepare found; none: there is no state
  const PreparedSchedule* schedule_ = nullptr;  // likewise
  std::vector<SliceStats> of_tensors_;  // of riders nothing: none of them is encoded or lost
  std::vector<TensorPart> parts_;
  std::vector<std::vector<Piece>> slices_;
  // The group as one array of the callers' memory, if it is one and nothing but the plain sum is
  // wanted. It is cut as any group is: on other ranks the tensors may lie apart.
  std::optional<RawOp> flat_;
  int64_t flat_done_ = 0;  // elements of the slices made so far
};

// For the engine, but for its patience. Of `tensors` dither_step is filled in.
std::shared_ptr<Operation> MakeTensorOperation(std::vector<SubmittedTensor> tensors,
                                               const TensorCall& call);

}  // namespace gradwire

#endif  // GRADWIRE_RUNTIME_OPERATIONS_TENSOR_OPERATION_H_
