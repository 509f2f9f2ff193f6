#include "compress/codecs/powersgd/powersgd_codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/numeric.h"
#include "compress/codecs/carrier_jobs.h"
#include "compress/codecs/lowrank_carrier.h"

namespace gradwire {
namespace {

// Agreed: the orthonormal P. Replicated: the sum of Q as it was, made orthonormal when it is used,
// so that neither its magnitude nor what somebody saved matters. Workspace: behind what low rank
// has, the energy of M.
class PowerSgdCarrier final : public LowRankCarrier {
 public:
  using LowRankCarrier::LowRankCarrier;

  int rounds() const override { return 2; }
  int64_t AgreedBytes(const TensorMeta& meta, int) const override {
    return 4 * Dims(meta).p_elems();
  }
  int64_t WorkspaceBytes(const TensorMeta& meta, int world_size) const override {
    return LowRankCarrier::WorkspaceBytes(meta, world_size) + kEnergyBytes;
  }
  int64_t ReplicatedBytes(const TensorMeta& meta, int) const override {
    return 4 * Dims(meta).q_elems();
  }
  RoundSpec Round(int round, const TensorMeta& meta, int, ConstBytes, ConstBytes) const override {
    return {.elems = round == 0 ? Dims(meta).p_elems() : Dims(meta).q_elems()};
  }

  Status Fill(int round, const StepView& view, View carrier, ExecContext*) const override {
    view.stats->bytes += carrier.bytes();
    if (round == 0) {
      FillP(view, carrier);
    } else {
      FillQ(view, carrier);
    }
    return Status();
  }

  Status Absorb(int round, ConstView reduced, const StepView& view, ExecContext*) const override {
    if (round == 0) {
      AbsorbP(reduced, view);
    } else {
      AbsorbQ(reduced, view);
    }
    return Status();
  }

 private:
  static constexpr int64_t kEnergyBytes = sizeof(double);

  // At the end, at any alignment.
  static std::byte* EnergyIn(const StepView& view) {
    return view.workspace.data + view.workspace.size - kEnergyBytes;
  }
  static float* P(const StepView& view) { return reinterpret_cast<float*>(view.agreed.data); }

  void FillP(const StepView& view, View carrier) const {
    const LowRankDims dims = Dims(view.meta);
    const LowRankScratch scratch = LowRankScratchOf(view, dims);
    MakeLowRankBasis({.stored = view.replicated_in.data,
                      .rows = dims.cols,
                      .rank = dims.rank,
                      .dither = view.dither},
                     scratch.kernels, scratch.basis);
    EncodeStats stats;
    MultiplyByQ(LowRankMatrixOf(view, dims), scratch.basis, dims.rank, scratch.kernels,
                {.factor = carrier.as<float>(),
                 .m_out = StagesInput(view) ? view.e_out.as<float>() : nullptr,
                 .stats = &stats});
    std::memcpy(EnergyIn(view), &stats.sum_p2, kEnergyBytes);
    if (!CountLowRankInput(view, stats)) FillWithNan(carrier);
  }

  void AbsorbP(ConstView reduced, const StepView& view) const {
    const LowRankDims dims = Dims(view.meta);
    std::memcpy(P(view), reduced.data, static_cast<size_t>(reduced.bytes()));
    Orthonormalize(dims.rows, dims.rank, view.dither, LowRankScratchOf(view, dims).kernels,
                   P(view));
  }

  void FillQ(const StepView& view, View carrier) const {
    if (std::isnan(P(view)[0])) {  // then all are, on every rank
      KeepResidual(view);
      return FillWithNan(carrier);
    }
    const LowRankDims dims = Dims(view.meta);
    const Bytes scratch = LowRankScratchOf(view, dims).kernels;
    const LowRankMatrix m = StagedLowRankMatrixOf(view, dims);
    MultiplyByP(m, P(view), dims.rank, scratch, {.factor = carrier.as<float>()});
    double energy = 0;
    std::memcpy(&energy, EnergyIn(view), kEnergyBytes);
    KeepBack(view, m, energy, {.rank = dims.rank, .p = P(view), .q = carrier.as<float>()}, scratch);
  }

  void AbsorbQ(ConstView reduced, const StepView& view) const {
    const LowRankDims dims = Dims(view.meta);
    const auto* q = reduced.as<float>();
    // A gradient of zeros has no columns worth starting from.
    const bool is_start = CountNonFinite(reduced) == 0 &&
                          std::any_of(q, q + reduced.elems, [](float v) { return v != 0; });
    std::memcpy(view.replicated_out.data, is_start ? reduced.data : view.replicated_in.data,
                static_cast<size_t>(view.replicated_out.size));
    StoreLowRankOutput(view, dims, {.rank = dims.rank, .p = P(view), .q = q},
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
      .advice = {.note = "matrices only; vectors travel exact"},
      .make = MakePowerSgd};
}

}  // namespace gradwire
