#include "compress/codecs/acp/acp_codec.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/numeric.h"
#include "compress/codecs/carrier_jobs.h"
#include "compress/codecs/lowrank_carrier.h"
#include "compress/kernels/input/input_kernels.h"

namespace gradwire {
namespace {

// Replicated: whose turn it is, 0 or 1 as in Factor, then the last factor's sum, made orthonormal
// when it is used, then zeros up to the size of the larger factor.
class AcpCarrier final : public LowRankCarrier {
 public:
  using LowRankCarrier::LowRankCarrier;

  int rounds() const override { return 1; }
  int64_t ReplicatedBytes(const TensorMeta& meta, int) const override {
    return kTurnBytes + 4 * Dims(meta).larger_elems();
  }
  int64_t WorkspaceBytes(const TensorMeta& meta, int world_size) const override {
    const LowRankDims dims = Dims(meta);
    return LowRankCarrier::WorkspaceBytes(meta, world_size) + 4 * dims.larger_elems();
  }
  RoundSpec Round(int, const TensorMeta& meta, int, ConstBytes,
                  ConstBytes replicated) const override {
    const LowRankDims dims = Dims(meta);
    if (replicated.empty()) return {.elems = (dims.p_elems() + dims.q_elems() + 1) / 2};  // a mean
    return {.elems = dims.elems_of(TurnIn(replicated))};
  }

  Status Fill(int, const StepView& view, View carrier, ExecContext*) const override {
    const Factors factors = FactorsOf(view);
    MakeBasis(view, factors);
    view.stats->bytes += carrier.bytes();
    EncodeStats of_input;
    Project(LowRankMatrixOf(view, factors.dims),
            {.made = factors.turn,
             .rank = factors.dims.rank,
             .basis = factors.scratch.basis,
             .factor = carrier.as<float>(),
             .e_out = ResidualSlot(view),
             .stats = &of_input},
            factors.scratch.kernels);
    if (!CountLowRankInput(view, of_input)) {
      KeepResidual(view);
      FillWithNan(carrier);
    } else if (!view.e_out.empty()) {
      view.stats->sum_p2 += of_input.sum_p2;
      view.stats->sum_err2 += EnergyLeft(view, factors, of_input.sum_p2, carrier);
    }
    if (WritesInPlace(view)) std::memcpy(factors.own, carrier.data, carrier.bytes());
    return Status();
  }

  Status Absorb(int, ConstView reduced, const StepView& view, ExecContext*) const override {
    const Factors factors = FactorsOf(view);
    if (CountNonFinite(reduced) == 0) {
      StoreNext(view, Other(factors.turn), reduced);
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
  using Turn = uint32_t;
  static constexpr int64_t kTurnBytes = sizeof(Turn);

  struct Factors {
    LowRankDims dims;
    Factor turn = Factor::kP;  // the one that is made
    LowRankScratch scratch;    // with the basis, which Fill makes
    float* own = nullptr;      // what this rank sent, where the residual is written in Absorb

    LowRankProduct Product(const float* made) const {
      return ProductOf(turn, dims.rank, made, scratch.basis);
    }
  };

  // Of any bytes whatever.
  static Factor TurnIn(ConstBytes replicated) {
    Turn turn;
    std::memcpy(&turn, replicated.data, sizeof turn);
    return turn % 2 == 0 ? Factor::kP : Factor::kQ;
  }

  Factors FactorsOf(const StepView& view) const {
    const LowRankDims dims = Dims(view.meta);
    return {.dims = dims,
            .turn = TurnIn(view.replicated_in),
            .scratch = LowRankScratchOf(view, dims),
            .own = LowRankScratchOf(view, dims).basis + dims.larger_elems()};
  }

  // Over the last residual, which is needed until it is known whether all ranks are finite.
  static bool WritesInPlace(const StepView& view) {
    return !view.e_out.empty() && !StagesInput(view);
  }

  // Of what is kept back, now or in Absorb.
  static double EnergyLeft(const StepView& view, const Factors& factors, double energy, View made) {
    const std::optional<double> kept_back = EnergyKeptBack(energy, made.as<float>(), made.elems);
    if (kept_back) return *kept_back;
    if (!WritesInPlace(view)) return EnergyOf(view.e_out.as<float>(), view.e_out.elems);
    return EnergyOfDifference(LowRankMatrixOf(view, factors.dims),
                              factors.Product(made.as<float>()), factors.scratch.kernels);
  }

  static void KeepBackInPlace(const StepView& view, const Factors& factors, int64_t elems) {
    if (CountNonFinite(FloatView(factors.own, elems)) > 0) return;
    SubtractProduct(LowRankMatrixOf(view, factors.dims), factors.Product(factors.own),
                    factors.scratch.kernels, view.e_out.as<float>());
  }

  static void MakeBasis(const StepView& view, const Factors& factors) {
    MakeLowRankBasis({.stored = view.replicated_in.data + kTurnBytes,
                      .rows = factors.dims.rows_of(Other(factors.turn)),
                      .rank = factors.dims.rank,
                      .dither = view.dither},
                     factors.scratch.kernels, factors.scratch.basis);
  }

  static void StoreNext(const StepView& view, Factor next, ConstView made) {
    const auto turn = static_cast<Turn>(next);
    std::byte* to = view.replicated_out.data;
    std::memcpy(to, &turn, sizeof turn);
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
                 .adam = false,
                 .note = "matrices only, vectors travel exact; momentum up to about 0.5: at 0.9 "
                         "diverges with the rate of none; Adam scales what is sent late by later "
                         "variances: 0.07 nats lost of 2.5"},
      .make = MakeAcp};
}

}  // namespace gradwire
