#include "compress/codecs/acp/acp_codec.h"

#include <algorithm>
#include <cstring>

#include "base/numeric.h"
#include "compress/codecs/carrier_jobs.h"
#include "compress/codecs/lowrank_carrier.h"
#include "compress/kernels/input/input_kernels.h"

namespace gradwire {
namespace {

// Which factor the replicated state holds, and so which one is made in this step.
enum class Turn : uint32_t { kMakeP = 0, kMakeQ = 1 };
constexpr int64_t kTurnBytes = sizeof(Turn);
// Where less of the energy is kept, rounding would tell in a difference of energies.
constexpr double kClearlyKept = 0.25;

// Replicated: the turn, then the last factor's sum, made orthonormal when it is used, then zeros up
// to the size of the larger factor.
class AcpCarrier final : public LowRankCarrier {
 public:
  using LowRankCarrier::LowRankCarrier;

  int rounds() const override { return 1; }
  int64_t ReplicatedBytes(const TensorMeta& meta, int) const override {
    return kTurnBytes + 4 * Dims(meta).larger_elems();
  }
  int64_t WorkspaceBytes(const TensorMeta& meta, int world_size) const override {
    const LowRankDims dims = Dims(meta);
    return LowRankCarrier::WorkspaceBytes(meta, world_size) +
           4 * (dims.larger_elems() + LowRankPieceElems(dims.rows, dims.cols));
  }
  RoundSpec Round(int, const TensorMeta& meta, int, ConstBytes,
                  ConstBytes replicated) const override {
    const LowRankDims dims = Dims(meta);
    if (replicated.empty()) return {.elems = (dims.p_elems() + dims.q_elems() + 1) / 2};  // a mean
    return {.elems = TurnIn(replicated) == Turn::kMakeP ? dims.p_elems() : dims.q_elems()};
  }

  Status Fill(int, const StepView& view, View carrier, ExecContext*) const override {
    const Factors factors = FactorsOf(view);
    MakeBasis(view, factors);
    view.stats->bytes += carrier.bytes();
    const EncodeStats of_input = MakeFactor(view, factors, carrier.as<float>());
    if (!CountLowRankInput(view, of_input)) {
      KeepResidual(view);
      FillWithNan(carrier);
    } else if (WritesInPlace(view)) {
      view.stats->sum_p2 += of_input.sum_p2;
      view.stats->sum_err2 += EnergyKept(view, factors, of_input.sum_p2, carrier);
    } else {
      KeepBack(view, StagedLowRankMatrixOf(view, factors.dims), of_input.sum_p2,
               factors.Product(carrier.as<float>()), factors.scratch.kernels);
    }
    if (WritesInPlace(view)) std::memcpy(factors.own, carrier.data, carrier.bytes());
    return Status();
  }

  Status Absorb(int, ConstView reduced, const StepView& view, ExecContext*) const override {
    const Factors factors = FactorsOf(view);
    if (CountNonFinite(reduced) == 0) {
      StoreNext(view, factors.turn, reduced);
      // First: the output may lie over the gradient.
      if (WritesInPlace(view)) KeepBackInPlace(view, factors, reduced.elems);
    } else {
      KeepResidual(view);
      std::memcpy(view.replicated_out.data, view.replicated_in.data,
                  static_cast<size_t>(view.replicated_out.size));
    }
    StoreLowRankOutput(view, factors.dims, factors.Product(reduced.as<float>()),
                       factors.scratch.kernels);
    return Status();
  }

 private:
  struct Factors {
    LowRankDims dims;
    Turn turn = Turn::kMakeP;
    int64_t basis_rows = 0;
    LowRankScratch scratch;  // with the basis, which Fill makes
    float* own = nullptr;    // what this rank sent, where the residual is written in Absorb

    LowRankProduct Product(const float* made) const {
      if (turn == Turn::kMakeP) return {.rank = dims.rank, .p = made, .q = scratch.basis};
      return {.rank = dims.rank, .p = scratch.basis, .q = made};
    }
  };

  // Of any bytes whatever.
  static Turn TurnIn(ConstBytes replicated) {
    uint32_t word;
    std::memcpy(&word, replicated.data, sizeof word);
    return word % 2 == 0 ? Turn::kMakeP : Turn::kMakeQ;
  }

  Factors FactorsOf(const StepView& view) const {
    const LowRankDims dims = Dims(view.meta);
    const Turn turn = TurnIn(view.replicated_in);
    const bool makes_p = turn == Turn::kMakeP;
    return {.dims = dims,
            .turn = turn,
            .basis_rows = makes_p ? dims.cols : dims.rows,
            .scratch = LowRankScratchOf(view, dims),
            .own = LowRankScratchOf(view, dims).basis + dims.larger_elems()};
  }

  // Over the last residual, which is needed until it is known whether all ranks are finite.
  static bool WritesInPlace(const StepView& view) {
    return !view.e_out.empty() && !StagesInput(view);
  }

  // Of what Absorb will keep back.
  static double EnergyKept(const StepView& view, const Factors& factors, double energy, View made) {
    // The basis is orthonormal.
    const double kept = energy - EnergyOf(made.as<float>(), made.elems);
    if (kept > kClearlyKept * energy) return kept;
    return EnergyOfDifference(LowRankMatrixOf(view, factors.dims),
                              factors.Product(made.as<float>()), factors.scratch.kernels,
                              factors.own + factors.dims.larger_elems());
  }

  static void KeepBackInPlace(const StepView& view, const Factors& factors, int64_t elems) {
    if (CountNonFinite(FloatView(factors.own, elems)) > 0) return;
    SubtractProduct(LowRankMatrixOf(view, factors.dims), factors.Product(factors.own),
                    factors.scratch.kernels, view.e_out.as<float>());
  }

  static void MakeBasis(const StepView& view, const Factors& factors) {
    MakeLowRankBasis({.stored = view.replicated_in.data + kTurnBytes,
                      .rows = factors.basis_rows,
                      .rank = factors.dims.rank,
                      .dither = view.dither},
                     factors.scratch.kernels, factors.scratch.basis);
  }

  // The first pass over gradient and residual, and what it counts.
  static EncodeStats MakeFactor(const StepView& view, const Factors& factors, float* made) {
    const LowRankMatrix m = LowRankMatrixOf(view, factors.dims);
    const LowRankScratch& scratch = factors.scratch;
    EncodeStats stats;
    const LowRankFactorOut out = {.factor = made,
                                  .m_out = StagesInput(view) ? view.e_out.as<float>() : nullptr,
                                  .stats = &stats};
    if (factors.turn == Turn::kMakeP) {
      MultiplyByQ(m, scratch.basis, factors.dims.rank, scratch.kernels, out);
    } else {
      MultiplyByP(m, scratch.basis, factors.dims.rank, scratch.kernels, out);
    }
    return stats;
  }

  static void StoreNext(const StepView& view, Turn turn, ConstView made) {
    const Turn next = turn == Turn::kMakeP ? Turn::kMakeQ : Turn::kMakeP;
    std::byte* to = view.replicated_out.data;
    std::memcpy(to, &next, sizeof next);
    std::memcpy(to + kTurnBytes, made.data, static_cast<size_t>(made.bytes()));
    const int64_t used = kTurnBytes + made.bytes();
    std::memset(to + used, 0, static_cast<size_t>(view.replicated_out.size - used));
  }
};

std::shared_ptr<const CarrierMethod> MakeCarrier(int rank) {
  return std::make_shared<AcpCarrier>(rank);
}

}  // namespace

StatusOr<Codec> MakeAcp(const SpecText& spec) { return MakeLowRankCodec(spec, MakeCarrier); }

CodecRow AcpRow() {
  return {
      .name = "acp",
      .doc =
          "matrix as a product of two factors of `rank` columns, one of them a step, error "
          "feedback, 32 rank rows or 32 rank columns bits a matrix; ACP-SGD, Zhang et al. 2023",
      .keys = {"rank", "start_step"},
      .conformance_specs = {"acp", "acp(rank=1)", "acp(start_step=1)"},
      .shown_specs = {"acp(rank=1)", "acp(rank=4)", "acp(rank=4,start_step=1000)"},
      .advice = {.momentum = false,
                 .note = "matrices only, vectors travel exact; momentum up to about 0.5: at 0.9 "
                         "diverges with the rate of none"},
      .make = MakeAcp};
}

}  // namespace gradwire
