// What the low-rank carriers `powersgd` and `acp` share: which tensors are matrices, how a rank
// reads its matrix, where an orthonormal basis comes from, what is kept back.
#ifndef GRADWIRE_COMPRESS_CODECS_LOWRANK_CARRIER_H_
#define GRADWIRE_COMPRESS_CODECS_LOWRANK_CARRIER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "compress/carrier_method.h"
#include "compress/kernels/lowrank/lowrank.h"
#include "compress/registry.h"

namespace gradwire {

enum class Factor : uint8_t { kP = 0, kQ = 1 };
inline Factor Other(Factor factor) { return factor == Factor::kP ? Factor::kQ : Factor::kP; }

// A tensor of shape (r, c, ...) as a matrix of r rows, and the rank its factors really have: no
// more than it has rows or columns.
struct LowRankDims {
  int64_t rows = 0;
  int64_t cols = 0;
  int rank = 0;

  int64_t p_elems() const { return rows * rank; }
  int64_t q_elems() const { return cols * rank; }
  int64_t larger_elems() const { return p_elems() > q_elems() ? p_elems() : q_elems(); }
  int64_t rows_of(Factor factor) const { return factor == Factor::kP ? rows : cols; }
  int64_t elems_of(Factor factor) const { return rows_of(factor) * rank; }
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
// Where the next residual has a slot of its own, that: the first pass may leave M there. Else null.
float* ResidualSlot(const StepView& view);
// What it has left there, or as LowRankMatrixOf.
LowRankMatrix StagedLowRankMatrixOf(const StepView& view, const LowRankDims& dims);

// `made` of M, the other one being `basis`.
void MakeFactor(Factor made, const LowRankMatrix& m, const float* basis, int rank, Bytes scratch,
                const LowRankFactorOut& out);

// Of the factor that was made and the other one.
LowRankProduct ProductOf(Factor made, int rank, const float* factor, const float* basis);

// A factor of M, made with orthonormal columns in place of the other one.
struct LowRankProjection {
  Factor made = Factor::kP;
  int rank = 0;
  const float* basis = nullptr;  // the other factor
  float* factor = nullptr;
  // What the projection misses, or null. May be the matrix's e_in or grad where `stats` is null.
  float* e_out = nullptr;
  EncodeStats* stats = nullptr;  // of M, or null: absmax, nonfinite and sum_p2 are added to
};
void Project(const LowRankMatrix& m, const LowRankProjection& to, Bytes scratch);

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

// What is kept back of a matrix of this energy that was projected on orthonormal columns, of which
// `factor` has the coefficients; nothing where rounding would tell in a difference of energies.
std::optional<double> EnergyKeptBack(double energy, const float* factor, int64_t elems);

// out = P Q^T * out_scale.
void StoreLowRankOutput(const StepView& view, const LowRankDims& dims,
                        const LowRankProduct& product, Bytes scratch);

void FillWithNan(View carrier);

// Reads rank=1..32 (default 4), start_step (default 0), and feedback=on, which is the only choice.
using MakeLowRankCarrier = std::shared_ptr<const CarrierMethod> (*)(int rank);
StatusOr<Codec> MakeLowRankCodec(const SpecText& spec, MakeLowRankCarrier make);

}  // namespace gradwire

#endif  // GRADWIRE_COMPRESS_CODECS_LOWRANK_CARRIER_H_
