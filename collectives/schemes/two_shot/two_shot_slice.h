// TwoShotSlice: encoded shards go to their owners, who add them in float32, encode the sum once and
// forward it verbatim. Two encodings at any world size; every rank decodes the same bytes. The
// order of additions is the order of ranks. A reduce-scatter ends with the sum at its owner: one
// encoding, and none of what an owner itself contributes.
#ifndef GRADWIRE_COLLECTIVES_SCHEMES_TWO_SHOT_TWO_SHOT_SLICE_H_
#define GRADWIRE_COLLECTIVES_SCHEMES_TWO_SHOT_TWO_SHOT_SLICE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/workspace.h"
#include "collectives/schedule.h"
#include "collectives/schemes/part.h"
#include "collectives/schemes/slice_op.h"

namespace gradwire {

// What one owner is responsible for.
struct ShardPlan {
  std::vector<Piece> pieces;
  int64_t first_elem = 0;  // elements of the shards before it
  int64_t elems = 0;
  int64_t payload_bytes = 0;
};

// Cuts a slice's pieces at multiples of kCutElems into one shard a rank, of nearly equal payload. A
// pure function of the pieces, the codecs and the world size. Pieces of a shard are at most
// kPieceElems long.
std::vector<ShardPlan> CutIntoShards(std::span<const Piece> slice,
                                     std::span<const TensorPart> parts, int world_size);

class TwoShotSlice final : public SliceOp {
 public:
  // `parts` and `schedule` outlive the slice; `schedule` is of one of the encoded algorithms. For
  // a reduce-scatter `slice` has a piece of each rank's shard, and a part's output is one shard.
  TwoShotSlice(std::span<const TensorPart> parts, const PartContext& context,
               std::span<const Piece> slice, const PreparedSchedule* schedule);

  StatusOr<SliceAction> Next() override;
  Bytes Memory(const Region& region) override;
  int64_t MessageBytes(const Region& region) const override;
  void Combine(const Step& step, int64_t offset, ConstBytes fragment) override;
  StatusOr<bool> Compute(const Step& step, int64_t* cursor) override;

 private:
  BufferRole RoleOf(const Region& region) const {
    return schedule_->schedule.buffers[region.buffer].role;
  }
  const ShardPlan& PlanOf(const Region& region) const {
    return shards_[schedule_->schedule.buffers[region.buffer].shard_ids[region.first]];
  }
  Status LayOut();
  Status ComputePiece(const Step& step, const ShardPlan& shard, const Piece& piece);
  Status EncodeOwn(const Piece& piece, Bytes payload);
  Status EncodeSum(const Piece& piece, Bytes payload);
  float InScaleOf(const TensorPart& part) const;
  float OutScaleOf(const TensorPart& part) const;
  ConstView ResidualOf(const Piece& piece);
  bool SavesResiduals() const;
  View SavedResidual(const ShardPlan& shard, const Piece& piece);
  void SaveResidual(const ShardPlan& shard, const Piece& piece);
  void KeepWhatDidNotArrive(const ShardPlan& shard, const Piece& piece);
  void CopyOut(const Piece& piece);
  Status DecodeResult(const ShardPlan& shard, const Piece& piece, ConstBytes payload);
  void TakeSum(const Piece& piece);
  void CountResult(const TensorPart& part, View out);
  bool IsScatter() const { return schedule_->schedule.collective == Collective::kReduceScatter; }
  View OutOf(const Piece& piece) const;
  int64_t DitherElemOf(const Piece& piece) const;
  void CountEncoding(const TensorPart& part, const EncodeStats& stats, double owned_p2);
  View Row(const Piece& piece);  // of the accumulator

  const std::span<const TensorPart> parts_;
  const PartContext context_;
  const PreparedSchedule* const schedule_;
  std::vector<ShardPlan> shards_;
  std::vector<std::vector<int64_t>>
      offset_;  // per buffer and shard, in memory_; empty for the caller's arrays
  AlignedBuffer memory_;
  AlignedBuffer workspace_;
  AlignedBuffer scaled_;  // a piece's residual in the units of its gradients, if any has one so
  AlignedBuffer saved_;   // residuals as they were, of all shards, where they are written in place
  bool started_ = false;
};

}  // namespace gradwire

#endif  // GRADWIRE_COLLECTIVES_SCHEMES_TWO_SHOT_TWO_SHOT_SLICE_H_
