#include "runtime/controller/probe.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "base/dtype.h"
#include "base/float_rules.h"
#include "collectives/reduce/reduce.h"

namespace gradwire {
namespace {

// Of a row longer than this a piece is a part.
constexpr int64_t kMaxRowBytes = 4 * kProbeBytes;

int64_t Product(std::span<const int64_t> lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{1}, std::multiplies<>());
}

double UsPerElem(int64_t ns, int64_t elems) {
  return static_cast<double>(ns) / kNsPerUs / static_cast<double>(std::max<int64_t>(elems, 1));
}

Status MakeZeros(AlignedBuffer* buffer, int64_t bytes) {
  GW_RETURN_IF_ERROR(buffer->EnsureBytes(bytes));
  std::fill_n(buffer->data(), bytes, std::byte{0});
  return Status();
}

// gwNonFinite: a piece of zeros, or one with a NaN, tells nothing of the codec.
StatusOr<ProbeReport> ReportOf(double codec_us_per_elem, const EncodeStats& stats) {
  const double error = stats.sum_err2 / stats.sum_p2;
  if (stats.nonfinite > 0 || !std::isfinite(error))
    return Status(gwNonFinite, "the piece has no energy, or no finite one");
  return ProbeReport{codec_us_per_elem, error};
}

}  // namespace

std::optional<ProbePiece> PieceToProbe(std::span<const int64_t> shape, int64_t elem_bytes,
                                       int64_t number) {
  const int64_t elems = Product(shape);
  if (shape.empty() || elems == 0) return std::nullopt;
  if (elems / shape[0] * elem_bytes > kMaxRowBytes)
    return PieceToProbe({&elems, 1}, elem_bytes, number);
  const int64_t row = elems / shape[0], rows = shape[0];
  const int64_t taken = std::clamp(kProbeBytes / elem_bytes / row, int64_t{1}, rows);
  ProbePiece piece = {.first_elem = number % (rows / taken) * taken * row,
                      .shape = {shape.begin(), shape.end()},
                      .elems = taken * row};
  piece.shape[0] = taken;
  return piece;
}

StatusOr<ProbeReport> Prober::Probe(const Codec& codec, ConstView grad,
                                    std::span<const int64_t> shape, int world_size) {
  const ScopedFloatRules rules;  // as the engine's: the caller's may trap, or flush subnormals
  if (codec.payload != nullptr) return ProbePayload(*codec.payload, grad, world_size);
  const TensorMeta meta = {.shape = shape, .elems = grad.elems, .dtype = grad.dtype};
  GW_RETURN_IF_ERROR(codec.carrier->Check(meta, world_size));
  return ProbeCarrier({codec, grad, meta, std::min(world_size, kProbedRanks)});
}

// In two_shot a rank encodes every element once, as a contribution or as the owner's sum, and
// decodes n - 1 contributions to its own part and the n - 1 parts of others.
StatusOr<ProbeReport> Prober::ProbePayload(const PayloadCodec& codec, ConstView grad,
                                           int world_size) {
  const double n = world_size;
  GW_RETURN_IF_ERROR(payload_.EnsureBytes(codec.MaxBytes(grad.elems)));
  GW_RETURN_IF_ERROR(workspace_.EnsureBytes(codec.WorkspaceBytes(grad.elems)));
  GW_RETURN_IF_ERROR(decoded_.EnsureBytes(grad.elems * SizeOf(DType::kFloat32)));
  EncodeStats stats;
  const int64_t begin_ns = clock_->NowNs();
  GW_RETURN_IF_ERROR(codec.Encode(
      {.grad = grad, .out = payload_.bytes(), .workspace = workspace_.bytes(), .stats = &stats}));
  const int64_t encoded_ns = clock_->NowNs();
  GW_RETURN_IF_ERROR(codec.Decode({payload_.data(), stats.bytes},
                                  {decoded_.data(), grad.elems, DType::kFloat32}, 1.0f, nullptr));
  const int64_t decoded_ns = clock_->NowNs();
  return ReportOf(UsPerElem(encoded_ns - begin_ns, grad.elems) +
                      2 * (n - 1) / n * UsPerElem(decoded_ns - encoded_ns, grad.elems),
                  stats);
}

StatusOr<ProbeReport> Prober::ProbeCarrier(const Trial& trial) {
  GW_RETURN_IF_ERROR(MakeZeros(&zeros_, trial.meta.elems * SizeOf(DType::kFloat32)));
  for (int r = 0; r < trial.ranks; ++r) GW_RETURN_IF_ERROR(Prepare(trial, &ranks_[r]));
  for (int step = 0; step < kProbedSteps; ++step) {
    ranks_[0].stats = {};
    ranks_[0].codec_ns = 0;
    for (int round = 0; round < trial.codec.carrier->rounds(); ++round)
      GW_RETURN_IF_ERROR(RunRound(trial, round));
    for (Rank& rank : ranks_) std::swap(rank.replicated_in, rank.replicated_out);
  }
  return ReportOf(UsPerElem(ranks_[0].codec_ns, trial.meta.elems), ranks_[0].stats);
}

Status Prober::Prepare(const Trial& trial, Rank* rank) {
  const CarrierMethod& method = *trial.codec.carrier;
  const TensorMeta& meta = trial.meta;
  const int64_t replicated = method.ReplicatedBytes(meta, trial.ranks);
  GW_RETURN_IF_ERROR(rank->workspace.EnsureBytes(method.WorkspaceBytes(meta, trial.ranks)));
  GW_RETURN_IF_ERROR(rank->agreed.EnsureBytes(method.AgreedBytes(meta, trial.ranks)));
  GW_RETURN_IF_ERROR(MakeZeros(&rank->replicated_in, replicated));
  GW_RETURN_IF_ERROR(rank->replicated_out.EnsureBytes(replicated));
  GW_RETURN_IF_ERROR(rank->e_out.EnsureBytes(zeros_.size()));
  return rank->out.EnsureBytes(trial.grad.bytes());
}

StepView Prober::ViewOf(const Trial& trial, int rank) {
  Rank& own = ranks_[static_cast<size_t>(rank)];
  StepView view = {.meta = trial.meta,
                   .world_size = trial.ranks,
                   .grad = trial.grad,
                   .replicated_in = own.replicated_in.bytes(),
                   .replicated_out = own.replicated_out.bytes(),
                   .out = {own.out.data(), trial.grad.elems, trial.grad.dtype},
                   .dither = {.rank = static_cast<uint32_t>(rank)},
                   .agreed = own.agreed.bytes(),
                   .workspace = own.workspace.bytes()};
  // Tensors of a codec without feedback have no residual, and its kernels a write less.
  if (trial.codec.feedback == Feedback::kOn) {
    view.e_in = {zeros_.data(), trial.grad.elems, DType::kFloat32};
    view.e_out = {own.e_out.data(), trial.grad.elems, DType::kFloat32};
  }
  return view;
}

Status Prober::RunRound(const Trial& trial, int round) {
  const CarrierMethod& method = *trial.codec.carrier;
  const StepView first = ViewOf(trial, 0);
  const RoundSpec spec =
      method.Round(round, trial.meta, trial.ranks, first.agreed, first.replicated_in);
  for (int r = 0; r < trial.ranks; ++r) GW_RETURN_IF_ERROR(Fill(trial, round, spec, r));
  GW_RETURN_IF_ERROR(AddCarriers(trial, spec));
  const ConstView reduced = {reduced_.data(), reduced_.size() / SizeOf(spec.dtype), spec.dtype};
  for (int r = 0; r < trial.ranks; ++r) {
    const int64_t begin_ns = clock_->NowNs();
    GW_RETURN_IF_ERROR(method.Absorb(round, reduced, ViewOf(trial, r), nullptr));
    ranks_[static_cast<size_t>(r)].codec_ns += clock_->NowNs() - begin_ns;
  }
  return Status();
}

Status Prober::Fill(const Trial& trial, int round, const RoundSpec& spec, int rank) {
  Rank& own = ranks_[static_cast<size_t>(rank)];
  GW_RETURN_IF_ERROR(own.carrier.EnsureBytes(spec.elems * SizeOf(spec.dtype)));
  StepView view = ViewOf(trial, rank);
  view.stats = &own.stats;
  const View carrier = {own.carrier.data(), spec.elems, spec.dtype};
  const int64_t begin_ns = clock_->NowNs();
  GW_RETURN_IF_ERROR(trial.codec.carrier->Fill(round, view, carrier, nullptr));
  own.codec_ns += clock_->NowNs() - begin_ns;
  return Status();
}

Status Prober::AddCarriers(const Trial& trial, const RoundSpec& spec) {
  const int64_t bytes = spec.elems * SizeOf(spec.dtype);
  const bool gathers = trial.codec.carrier->Gathers();
  GW_RETURN_IF_ERROR(reduced_.EnsureBytes(gathers ? bytes * trial.ranks : bytes));
  for (int r = 0; r < trial.ranks; ++r) {
    const ConstBytes carrier = ranks_[static_cast<size_t>(r)].carrier.bytes();
    if (gathers || r == 0) {
      std::copy_n(carrier.data, bytes, reduced_.data() + (gathers ? r * bytes : 0));
    } else {
      ReduceInto(spec.dtype, spec.op, reduced_.bytes(), carrier, reduced_.bytes());
    }
  }
  return Status();
}

}  // namespace gradwire
