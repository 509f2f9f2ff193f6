#include "compress/codecs/powersgd/powersgd_codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/numeric.h"
#include "compress/codecs/carrier_jobs.h"
#include "compress/codecs/lowrank_carrier.h"
#include "compress/kernels/input/input_kernels.h"

namespace gradwire {
namespace {

// Agreed: the first factor, made orthonormal. Replicated: the sum of the second one as it was, made
// orthonormal when it is used, so that neither its magnitude nor what somebody saved matters.
// Workspace: behind what low rank has, the energy of M.
//
// What a step misses is orthogonal to the first factor's columns: k of as many dimensions as those
// have. So the first factor is the one with fewer rows; the paper's is P, which is the same for the
// transposed matrix. Of a square matrix it is Q: then the second one and what is left come from one
// pass over M.
class PowerSgdCarrier final : public LowRankCarrier {
 public:
  using LowRankCarrier::LowRankCarrier;

  int rounds() const override { return 2; }
  int64_t AgreedBytes(const TensorMeta& meta, int) const override {
    return 4 * Dims(meta).elems_of(FirstOf(Dims(meta)));
  }
  int64_t WorkspaceBytes(const TensorMeta& meta, int world_size) const override {
    return LowRankCarrier::WorkspaceBytes(meta, world_size) + kEnergyBytes;
  }
  int64_t ReplicatedBytes(const TensorMeta& meta, int) const override {
    return 4 * Dims(meta).elems_of(SecondOf(Dims(meta)));
  }
  RoundSpec Round(int round, const TensorMeta& meta, int, ConstBytes, ConstBytes) const override {
    const LowRankDims dims = Dims(meta);
    return {.elems = dims.elems_of(round == 0 ? FirstOf(dims) : SecondOf(dims))};
  }

  Status Fill(int round, const StepView& view, View carrier, ExecContext*) const override {
    view.stats->bytes += carrier.bytes();
    if (round == 0) {
      FillFirst(view, carrier);
    } else {
      FillSecond(view, carrier);
    }
    return Status();
  }

  Status Absorb(int round, ConstView reduced, const StepView& view, ExecContext*) const override {
    if (round == 0) {
      AbsorbFirst(reduced, view);
    } else {
      AbsorbSecond(reduced, view);
    }
    return Status();
  }

 private:
  static constexpr int64_t kEnergyBytes = sizeof(double);

  static Factor FirstOf(const LowRankDims& dims) {
    return dims.rows < dims.cols ? Factor::kP : Factor::kQ;
  }
  static Factor SecondOf(const LowRankDims& dims) { return Other(FirstOf(dims)); }
  // At the end, at any alignment.
  static std::byte* EnergyIn(const StepView& view) {
    return view.workspace.data + view.workspace.size - kEnergyBytes;
  }
  static float* Basis(const StepView& view) { return reinterpret_cast<float*>(view.agreed.data); }

  void FillFirst(const StepView& view, View carrier) const {
    const LowRankDims dims = Dims(view.meta);
    const LowRankScratch scratch = LowRankScratchOf(view, dims);
    MakeLowRankBasis({.stored = view.replicated_in.data,
                      .rows = dims.rows_of(SecondOf(dims)),
                      .rank = dims.rank,
                      .dither = view.dither},
                     scratch.kernels, scratch.basis);
    EncodeStats stats;
    MakeFactor(FirstOf(dims), LowRankMatrixOf(view, dims), scratch.basis, dims.rank,
               scratch.kernels,
               {.factor = carrier.as<float>(), .m_out = ResidualSlot(view), .stats = &stats});
    std::memcpy(EnergyIn(view), &stats.sum_p2, kEnergyBytes);
    if (!CountLowRankInput(view, stats)) FillWithNan(carrier);
  }

  void AbsorbFirst(ConstView reduced, const StepView& view) const {
    const LowRankDims dims = Dims(view.meta);
    std::memcpy(Basis(view), reduced.data, static_cast<size_t>(reduced.bytes()));
    Orthonormalize(dims.rows_of(FirstOf(dims)), dims.rank, view.dither,
                   LowRankScratchOf(view, dims).kernels, Basis(view));
  }

  // The residual may be written in its place: all ranks are finite.
  void FillSecond(const StepView& view, View carrier) const {
    if (std::isnan(Basis(view)[0])) {  // then all are, on every rank
      KeepResidual(view);
      return FillWithNan(carrier);
    }
    const LowRankDims dims = Dims(view.meta);
    Project(StagedLowRankMatrixOf(view, dims),
            {.made = SecondOf(dims),
             .rank = dims.rank,
             .basis = Basis(view),
             .factor = carrier.as<float>(),
             .e_out = view.e_out.empty() ? nullptr : view.e_out.as<float>()},
            LowRankScratchOf(view, dims).kernels);
    if (!view.e_out.empty()) CountKeptBack(view, carrier);
  }

  static void CountKeptBack(const StepView& view, View carrier) {
    double energy = 0;
    std::memcpy(&energy, EnergyIn(view), kEnergyBytes);
    const std::optional<double> kept_back =
        EnergyKeptBack(energy, carrier.as<float>(), carrier.elems);
    view.stats->sum_p2 += energy;
    view.stats->sum_err2 +=
        kept_back ? *kept_back : EnergyOf(view.e_out.as<float>(), view.e_out.elems);
  }

  void AbsorbSecond(ConstView reduced, const StepView& view) const {
    const LowRankDims dims = Dims(view.meta);
    const auto* factor = reduced.as<float>();
    // A gradient of zeros has no columns worth starting from.
    const bool is_start =
        CountNonFinite(reduced) == 0 &&
        std::any_of(factor, factor + reduced.elems, [](float v) { return v != 0; });
    std::memcpy(view.replicated_out.data, is_start ? reduced.data : view.replicated_in.data,
                static_cast<size_t>(view.replicated_out.size));
    StoreLowRankOutput(view, dims, ProductOf(SecondOf(dims), dims.rank, factor, Basis(view)),
                       LowRankScratchOf(view, dims).kernels);
  }
};

std::shared_ptr<const CarrierMethod> MakeCarrier(int rank) {
  return std::make_shared<PowerSgdCarrier>(rank);
}

}  // namespace

StatusOr<Codec> MakePowerSgd(const SpecText& spec) { return MakeLowRankCodec(spec, MakeCarrier); }

CodecRow PowersgdRow() {
  return {
      .name = "powersgd",
      .doc =
          "matrix as a product of two factors of `rank` columns, from a warm start, error "
          "feedback, 32 rank (rows + columns) bits a matrix; PowerSGD, Vogels et al. 2019",
      .keys = {"rank", "start_step"},
      .conformance_specs = {"powersgd", "powersgd(rank=1)", "powersgd(start_step=1)"},
      .shown_specs = {"powersgd(rank=1)", "powersgd(rank=4)", "powersgd(rank=4,start_step=1000)"},
      .advice = {.adam = false,
                 .note = "matrices only, vectors travel exact; Adam scales what is sent late by "
                         "later variances: 0.06 nats lost of 2.5"},
      .make = MakePowerSgd};
}

}  // namespace gradwire
