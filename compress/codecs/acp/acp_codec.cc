#include "compress/codecs/acp/acp_codec.h"

#include <algorithm>
#include <cstring>

#include "base/numeric.h"
#include "compress/codecs/carrier_jobs.h"
#include "compress/codecs/lowrank_carrier.h"

namespace gradwire {
namespace {

// Which factor the replicated state holds, and so which one is made in this step.
enum class Turn : uint32_t { kMakeP = 0, kMakeQ = 1 };
constexpr int64_t kTurnBytes = sizeof(Turn);

// Replicated: the turn, then the last factor's sum, made orthonormal when it is used, then zeros up
// to the size of the larger factor.
class AcpCarrier final : public LowRankCarrier {
 public:
  using LowRankCarrier::LowRankCarrier;

  int rounds() const override { return 1; }
  int64_t ReplicatedBytes(const TensorMeta& meta, int) const override {
    return kTurnBytes + 4 * Dims(meta).larger_elems();
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
    if (FillFactor(view, factors, carrier.as<float>())) {
      KeepBack(view, StagedLowRankMatrixOf(view, factors.dims),
               factors.Product(carrier.as<float>()), factors.scratch.kernels);
    } else {
      KeepResidual(view);
      FillWithNan(carrier);
    }
    return Status();
  }

  Status Absorb(int, ConstView reduced, const StepView& view, ExecContext*) const override {
    const Factors factors = FactorsOf(view);
    if (CountNonFinite(reduced) == 0) {
      StoreNext(view, factors.turn, reduced);
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
            .scratch = LowRankScratchOf(view, dims)};
  }

  static void MakeBasis(const StepView& view, const Factors& factors) {
    MakeLowRankBasis({.stored = view.replicated_in.data + kTurnBytes,
                      .rows = factors.basis_rows,
                      .rank = factors.dims.rank,
                      .dither = view.dither},
                     factors.scratch.kernels, factors.scratch.basis);
  }

  // The one pass over gradient and residual. False where M cannot be summed.
  static bool FillFactor(const StepView& view, const Factors& factors, float* made) {
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
    return CountLowRankInput(view, stats);
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
