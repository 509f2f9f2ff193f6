#include "compress/codecs/lowrank_carrier.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <string>

#include "base/numeric.h"
#include "compress/codecs/carrier_jobs.h"
#include "compress/codecs/delayed_start.h"
#include "compress/kernels/input/input_kernels.h"
#include "compress/kernels/scalar_ref.h"
#include "compress/spec_args.h"

namespace gradwire {
namespace {

constexpr int kDefaultRank = 4;
// Where less of the energy is kept back, rounding would tell in a difference of energies.
constexpr double kClearlyKeptBack = 0.25;

// Whether |M| leaves room for the sum over all ranks of its products with orthonormal columns,
// none of which is larger than |M|, and for their rounding. From absmax, the only statistic that
// is the same on every SIMD target.
bool LeavesHeadroom(const StepView& view, float absmax) {
  const double most = std::sqrt(static_cast<double>(view.grad.elems)) * absmax;
  return most <= FLT_MAX / (4.0 * view.world_size);
}

int64_t KernelBytes(const LowRankDims& dims) {
  return LowRankWorkspaceBytes(dims.rows, dims.cols, dims.rank);
}

}  // namespace

LowRankDims LowRankDimsOf(const TensorMeta& meta, int rank) {
  LowRankDims dims = {.rows = meta.shape[0], .cols = meta.elems / meta.shape[0]};
  dims.rank = static_cast<int>(std::min({int64_t{rank}, dims.rows, dims.cols}));
  return dims;
}

LowRankScratch LowRankScratchOf(const StepView& view, const LowRankDims& dims) {
  const int64_t kernel_bytes = KernelBytes(dims);
  return {.kernels = view.workspace.Sub(0, kernel_bytes),
          .basis = reinterpret_cast<float*>(view.workspace.data + kernel_bytes)};
}

const CodecTraits& LowRankCarrier::traits() const {
  // What is kept back is the input without its projection to some columns. The first of those are
  // drawn from the dither.
  static constexpr CodecTraits kTraits = {.contractive = true, .stochastic = true};
  return kTraits;
}

Status LowRankCarrier::Check(const TensorMeta& meta, int) const {
  if (!traits().dtypes.contains(meta.dtype)) {
    return Status(gwInvalidArgument, "low rank takes float32, float16 or bfloat16",
                  "Send this tensor with codec none");
  }
  const bool is_matrix = meta.shape.size() >= 2 && meta.elems > 0 && meta.shape[0] > 0 &&
                         meta.elems % meta.shape[0] == 0;
  if (is_matrix) return Status();
  return Status(gwInvalidArgument, "low rank takes tensors of 2 dimensions or more, none of them 0",
                "Send this tensor with codec none");
}

std::string LowRankCarrier::Note(const TensorMeta& meta) const {
  const LowRankDims dims = Dims(meta);
  if (dims.rank == rank_) return {};
  return "rank " + std::to_string(dims.rank) + " of " + std::to_string(rank_) +
         ", for the matrix is " + std::to_string(dims.rows) + " x " + std::to_string(dims.cols);
}

int64_t LowRankCarrier::WorkspaceBytes(const TensorMeta& meta, int) const {
  const LowRankDims dims = Dims(meta);
  return KernelBytes(dims) + 4 * dims.larger_elems();
}

LowRankMatrix LowRankMatrixOf(const StepView& view, const LowRankDims& dims) {
  return {.rows = dims.rows,
          .cols = dims.cols,
          .grad = view.grad.data,
          .dtype = view.grad.dtype,
          .in_scale = view.in_scale,
          .e_in = view.e_in.empty() ? nullptr : view.e_in.as<float>()};
}

float* ResidualSlot(const StepView& view) {
  return StagesInput(view) ? view.e_out.as<float>() : nullptr;
}

LowRankMatrix StagedLowRankMatrixOf(const StepView& view, const LowRankDims& dims) {
  if (!StagesInput(view)) return LowRankMatrixOf(view, dims);
  return {.rows = dims.rows, .cols = dims.cols, .grad = view.e_out.data};
}

void MakeFactor(Factor made, const LowRankMatrix& m, const float* basis, int rank, Bytes scratch,
                const LowRankFactorOut& out) {
  if (made == Factor::kP) return MultiplyByQ(m, basis, rank, scratch, out);
  MultiplyByP(m, basis, rank, scratch, out);
}

LowRankProduct ProductOf(Factor made, int rank, const float* factor, const float* basis) {
  if (made == Factor::kP) return {.rank = rank, .p = factor, .q = basis};
  return {.rank = rank, .p = basis, .q = factor};
}

void Project(const LowRankMatrix& m, const LowRankProjection& to, Bytes scratch) {
  if (to.made == Factor::kP && to.e_out != nullptr) {
    return MultiplyByQAndSubtract(m, to.basis, to.rank, scratch,
                                  {.p = to.factor, .e_out = to.e_out, .stats = to.stats});
  }
  // A row of Q is known when all of M has been read.
  const bool over_input =
      to.e_out == m.e_in || reinterpret_cast<const std::byte*>(to.e_out) == m.grad;
  float* const staged = over_input ? nullptr : to.e_out;
  MakeFactor(to.made, m, to.basis, to.rank, scratch,
             {.factor = to.factor, .m_out = staged, .stats = to.stats});
  if (to.e_out == nullptr) return;
  const LowRankMatrix read_again = {
      .rows = m.rows, .cols = m.cols, .grad = reinterpret_cast<const std::byte*>(staged)};
  SubtractProduct(staged == nullptr ? m : read_again,
                  ProductOf(to.made, to.rank, to.factor, to.basis), scratch, to.e_out);
}

bool CountLowRankInput(const StepView& view, EncodeStats stats) {
  view.stats->absmax = std::max(view.stats->absmax, stats.absmax);
  if (stats.nonfinite == 0 && !LeavesHeadroom(view, stats.absmax)) stats.nonfinite = 1;
  view.stats->nonfinite += stats.nonfinite;
  return stats.nonfinite == 0;
}

void MakeLowRankBasis(const LowRankBasis& basis, Bytes scratch, float* columns) {
  const int64_t elems = basis.rows * basis.rank;
  std::memcpy(columns, basis.stored, static_cast<size_t>(4 * elems));
  if (CountNonFinite(FloatView(columns, elems)) > 0) std::fill_n(columns, elems, 0.0f);
  Orthonormalize(basis.rows, basis.rank, basis.dither, scratch, columns);
}

std::optional<double> EnergyKeptBack(double energy, const float* factor, int64_t elems) {
  const double kept_back = energy - EnergyOf(factor, elems);
  if (kept_back > kClearlyKeptBack * energy) return kept_back;
  return std::nullopt;
}

void StoreLowRankOutput(const StepView& view, const LowRankDims& dims,
                        const LowRankProduct& product, Bytes scratch) {
  StoreProduct(product, scratch,
               {.rows = dims.rows,
                .cols = dims.cols,
                .data = view.out.data,
                .dtype = view.out.dtype,
                .scale = view.out_scale});
}

void FillWithNan(View carrier) {
  std::fill_n(carrier.as<float>(), carrier.elems, std::bit_cast<float>(kNanBits));
}

StatusOr<Codec> MakeLowRankCodec(const SpecText& spec, MakeLowRankCarrier make) {
  SpecArgs args(spec);
  const int64_t rank = args.Int("rank", kDefaultRank, {.min = 1, .max = kLowRankMaxRank});
  const std::string without_delay = args.canonical();
  const int64_t start = args.Int("start_step", 0, {.min = 0, .max = kMaxDelaySteps});
  const std::string canonical = start > 0 ? args.canonical() : without_delay;
  if (args.ReadFeedback(Feedback::kOn) == Feedback::kOff) {
    return Status(gwInvalidArgument, spec.name + " does not accept feedback=off",
                  "Without feedback what its columns miss is lost in every step; use qsgd for an "
                  "unbiased codec");
  }
  if (!args.status().ok()) return args.status();
  return Codec{.spec = canonical,
               .feedback = Feedback::kOn,
               .carrier = StartAfter(start, make(static_cast<int>(rank))),
               .min_dims = 2,
               .min_numel = kMinNumelOfTensors};
}

}  // namespace gradwire
