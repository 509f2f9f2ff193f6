// What the low-rank carriers `powersgd` and `acp` share: which tensors are matrices, how a rank
// reads its matrix, where an orthonormal basis comes from, what is kept back.
#ifndef GRADWIRE_COMPRESS_CODECS_LOWRANK_CARRIER_H_
#define GRADWIRE_COMPRESS_CODECS_LOWRANK_CARRIER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "compress/carrier_method.h"
#include "compress/kernels/lowrank/lowrank.h"
#include "compress/registry.h"

namespace gradwire {

// A tensor of shape (r, c, ...) as a matrix of r rows, and the rank its factors really have: no
// more than it has rows or columns.
struct LowRankDims {
  int64_t rows = 0;
  int64_t cols = 0;
  int rank = 0;

  int64_t p_elems() const { return rows * rank; }
  int64_t q_elems() const { return cols * rank; }
  int64_t larger_elems() const { return p_elems() > q_elems() ? p_elems() : q_elems(); }
};

// `meta` is one that LowRankCarrier::Check accepts.
LowRankDims LowRankDimsOf(const TensorMeta& meta, int rank);

// What the workspace of a step is cut into. A method may have more, which follows.
struct LowRankScratch {
  Bytes kernels;           // LowRankWorkspaceBytes
  float* basis = nullptr;  // larger_elems
};
LowRankScratch LowRankScratchOf(const StepView& view, const LowRankDims& dims);

// M of a rank, all of it or nothing: where one element is not finite, or so large that a sum over
// the ranks could overflow, the carrier is made NaN, which every rank then sees.
class LowRankCarrier : public CarrierMethod {
 public:
  explicit LowRankCarrier(int rank) : rank_(rank) {}

  const CodecTraits& traits() const final;
  CarrierUnit unit() const final { return CarrierUnit::kTensor; }
  // Float tensors of two dimensions or more that are not empty.
  Status Check(const TensorMeta& meta, int world_size) const final;
  std::string Note(const TensorMeta& meta) const final;  // a rank that is less than asked for
  int64_t QuantumElems(const TensorMeta&, int) const final { return 1; }
  int64_t WorkspaceBytes(const TensorMeta& meta, int world_size) const override;

 protected:
  LowRankDims Dims(const TensorMeta& meta) const { return LowRankDimsOf(meta, rank_); }

 private:
  const int rank_;
};

// Of gradient and residual.
LowRankMatrix LowRankMatrixOf(const StepView& view, const LowRankDims& dims);
// Where StagesInput, of what the first pass left in e_out.
LowRankMatrix StagedLowRankMatrixOf(const StepView& view, const LowRankDims& dims);

// Adds absmax and nonfinite of M to the step's statistics. False where M cannot be summed; it then
// counts as at least one non-finite element.
bool CountLowRankInput(const StepView& view, EncodeStats of_input);

// `rank` orthonormal columns of `rows` elements that span those in `stored`. Zeros, as before the
// first step, become pseudo-random columns; and so do bytes that are no finite numbers.
struct LowRankBasis {
  const std::byte* stored = nullptr;  // rows * rank floats, any alignment
  int64_t rows = 0;
  int rank = 0;
  Dither dither;
};
void MakeLowRankBasis(const LowRankBasis& basis, Bytes scratch, float* columns);

// e_out = M - P Q^T. Its energy is added to sum_err2, and `energy`, that of M, to sum_p2: the
// ratio of both is of use only where they are of the same steps. Nothing where the step has no
// residual.
void KeepBack(const StepView& view, const LowRankMatrix& m, double energy,
              const LowRankProduct& product, Bytes scratch);

// out = P Q^T * out_scale.
void StoreLowRankOutput(const StepView& view, const LowRankDims& dims,
                        const LowRankProduct& product, Bytes scratch);

void FillWithNan(View carrier);

// Reads rank=1..32 (default 4), start_step (default 0), and feedback=on, which is the only choice.
using MakeLowRankCarrier = std::shared_ptr<const CarrierMethod> (*)(int rank);
StatusOr<Codec> MakeLowRankCodec(const SpecText& spec, MakeLowRankCarrier make);

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_LOWRANK_CARRIER_H_
