// LinearSlice: carrier methods over any all-reduce. Round after round the pieces fill one array,
// the schedule sums it, the pieces absorb the sum; the schedule sees plain numbers. Methods that
// gather go the same way over any all-gather.
#ifndef GRADWIRE_COLLECTIVES_SCHEMES_LINEAR_LINEAR_SLICE_H_
#define GRADWIRE_COLLECTIVES_SCHEMES_LINEAR_LINEAR_SLICE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/workspace.h"
#include "collectives/schemes/part.h"
#include "collectives/schemes/raw/raw_slice.h"
#include "collectives/schemes/slice_op.h"
#include "compress/carrier_method.h"

namespace gradwire {

class LinearSlice final : public SliceOp {
 public:
  // The parts' methods have the same number of rounds and agree in every round's type and
  // operation, and in whether they gather. No run is longer than `run_bytes`: what a round of whole
  // tensors fills is summed in as many as it takes. `parts` and `schedule` (a raw all-reduce or
  // all-gather) outlive the slice.
  LinearSlice(std::span<const TensorPart> parts, const PartContext& context,
              std::span<const Piece> slice, const PreparedSchedule* schedule, int64_t run_bytes);

  StatusOr<SliceAction> Next() override;
  // For those who ask for MessageBytes alone, in place of Next: goes on to the next run without
  // memory or data, and says whether there is one. The method's sizes do not depend on data; of
  // the parts only shape, type and replicated_in count.
  bool SkipToNextRun();
  StatusOr<bool> ComputeLocal() override;
  Bytes Memory(const Region& region) override { return run_->Memory(region); }
  int64_t MessageBytes(const Region& region) const override { return run_->MessageBytes(region); }
  void Combine(const Step& step, int64_t offset, ConstBytes fragment) override {
    run_->Combine(step, offset, fragment);
  }
  StatusOr<bool> Compute(const Step& step, int64_t* cursor) override {
    return run_->Compute(step, cursor);
  }

 private:
  enum class State : uint8_t { kStart, kFilling, kRunning, kAbsorbing, kDone };
  struct PieceState {
    Piece piece;
    RoundSpec round;
    int64_t carrier_offset = 0;  // bytes
    int64_t agreed_offset = 0, agreed_bytes = 0;
    int64_t workspace_offset = 0, workspace_bytes = 0;
  };
  Status LayOut();
  void PlanRound();
  Status BeginRound();
  void BeginRun();
  SliceAction BeginAbsorbing();
  bool in_last_round() const { return round_ + 1 == parts_[0].method->rounds(); }
  bool gathers() const { return !parts_.empty() && parts_[0].method->Gathers(); }
  Status FillPiece(const PieceState& state);
  Status AbsorbPiece(const PieceState& state);
  void CheckResult(const TensorPart& part, const StepView& view);
  TensorMeta MetaOf(const PieceState& state) const;
  Bytes AgreedOf(const PieceState& state);
  StepView ViewOf(const PieceState& state);
  View CarrierOf(const PieceState& state);
  ConstView ReducedOf(const PieceState& state);
  int64_t LargestScattered();

  const std::span<const TensorPart> parts_;
  const PartContext context_;
  const PreparedSchedule* const schedule_;
  const int64_t run_bytes_;
  std::vector<PieceState> pieces_;
  AlignedBuffer carrier_, scratch_;
  AlignedBuffer gathered_, piece_;  // of all ranks: the carriers, and one of several pieces of them
  std::optional<RawSlice> run_;
  State state_ = State::kStart;
  int round_ = 0;
  size_t next_piece_ = 0;
  RawOp sum_;             // of this round's carrier
  int64_t next_run_ = 0;  // first element of the carrier that no run has taken
};

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_SCHEMES_LINEAR_LINEAR_SLICE_H_
